#include "memory/trained_memory.hpp"

#include <gtest/gtest.h>

#include <cstring>

#include "config/available_memory.hpp"
#include "config/config.hpp"

namespace ebbtide::plugin {
namespace {

constexpr std::int64_t kMiB = 1 << 20;

class TrainedMemoryTest : public testing::Test {
 protected:
  CurrentConfig config_;
  TrainedMemory memory_{config_};
};

// Beside the need 3 %, but at least 2 MiB, in whole MiB. Of 10 MiB that is 12; of 1 GiB 1024
// + 30.72, and so 1055.
TEST_F(TrainedMemoryTest, ABudgetThatIsNamedHasRoomToSpare) {
  EXPECT_EQ(memory_.namedBudgetBytes(0), 0);
  EXPECT_EQ(memory_.namedBudgetBytes(10 * kMiB), 12 * kMiB);
  EXPECT_EQ(memory_.namedBudgetBytes(10 * kMiB + 1), 13 * kMiB);
  EXPECT_EQ(memory_.namedBudgetBytes(1024 * kMiB), 1055 * kMiB);
}

// And plans can use as much of it as steps need: 0.5 % of a budget, at least 1 MiB, they leave
// free.
TEST_F(TrainedMemoryTest, WhatStepsNeedFitsTheBudgetThatIsNamed) {
  for (const std::int64_t needed : {1 * kMiB, 100 * kMiB, 100'000 * kMiB + 17}) {
    const std::int64_t named = memory_.namedBudgetBytes(needed);
    EXPECT_GE(named - memory_.headroomBytes(named), needed);
  }
}

// Of 64 MiB 24 are mapped, so 40 are left; then 40, so 24 are.
TEST_F(TrainedMemoryTest, ABudgetIsAmpleWhileHalfOfItIsLeft) {
  allocator::DeviceMemory& host = memory_.memory();
  const auto mapped = [&](std::size_t bytes) {
    return host.allocate(bytes, allocator::Stream::kDefault);
  };
  memory_.setBudget(std::to_string(64 * kMiB));
  void* const first = mapped(24 * kMiB);
  EXPECT_TRUE(hasAmpleBudget(memory_));
  void* const second = mapped(16 * kMiB);
  EXPECT_FALSE(hasAmpleBudget(memory_));
  memory_.setBudget("");
  EXPECT_TRUE(hasAmpleBudget(memory_));
  host.deallocate(first);
  host.deallocate(second);
}

// Twice what the machine has is mapped, and 8 MiB of it are written: with a huge page at either end
// 12 at most.
TEST_F(TrainedMemoryTest, WhatWasNeverWrittenIsNoMemory) {
  allocator::DeviceMemory& host = memory_.memory();
  void* const block = host.allocate(static_cast<std::size_t>(2 * machineMemoryBytes()),
                                    allocator::Stream::kDefault);
  if (block == nullptr) GTEST_SKIP() << "so many addresses are not given here";
  EXPECT_LE(memory_.reachableBytes(), machineMemoryBytes());
  EXPECT_LT(residentBytes(host.mappedExtents()), 8 * kMiB);
  std::memset(block, 1, 8 * kMiB);
  EXPECT_GE(residentBytes(host.mappedExtents()), 8 * kMiB);
  EXPECT_LE(residentBytes(host.mappedExtents()), 12 * kMiB);
  host.deallocate(block);
}

}  // namespace
}  // namespace ebbtide::plugin
