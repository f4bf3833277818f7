// Pools whose free pages are not to be unmapped.
#include <gtest/gtest.h>

#include "stack.hpp"

namespace ebbtide::allocator::test {
namespace {

constexpr Stream kGraph{0x1001}, kOther{2};

TEST(KeptPages, StayMappedHoweverShortTheBudgetIs) {
  Stack stack;
  DeviceMemory& memory = stack.memory();
  memory.limitOverrun(0);
  memory.setBudget(16 * kMiB);
  memory.pool().keepMapped(kGraph, true);
  memory.deallocate(memory.allocate(size(8 * kMiB), kGraph));
  memory.deallocate(memory.allocate(1000, kGraph));
  const Bytes kept = memory.statistics().mapped_bytes;
  EXPECT_GE(kept, 8 * kMiB);

  EXPECT_EQ(memory.statistics().cached_bytes, 0) << "they are no cache";
  memory.releaseCached();
  EXPECT_EQ(memory.statistics().mapped_bytes, kept);
  EXPECT_EQ(memory.allocate(size(12 * kMiB), kOther), nullptr);
  void* again = memory.allocate(size(8 * kMiB), kGraph);
  EXPECT_NE(again, nullptr) << "the pool itself uses them";
  EXPECT_EQ(memory.statistics().mapped_bytes, kept);
  memory.deallocate(again);

  memory.pool().keepMapped(kGraph, false);
  void* block = memory.allocate(size(12 * kMiB), kOther);
  EXPECT_NE(block, nullptr);
  memory.deallocate(block);
  memory.releaseCached();
  EXPECT_EQ(memory.statistics().mapped_bytes, 0);
}

// An empty chunk at the peak: nobody else can have its pages while the pool keeps them.
TEST(KeptPages, AreSlackThoughNoBlockIsInThem) {
  for (const bool keeps : {true, false}) {
    Stack stack;
    DeviceMemory& memory = stack.memory();
    memory.pool().keepMapped(kGraph, keeps);
    memory.deallocate(memory.allocate(1000, kGraph));
    void* large = memory.allocate(size(8 * kMiB), kGraph);
    const Bytes chunk = memory.statistics().mapped_bytes - 8 * kMiB;
    EXPECT_GT(chunk, 0);
    EXPECT_EQ(memory.statistics().slack_at_peak_bytes, keeps ? chunk : 0);
    memory.deallocate(large);
  }
}

}  // namespace
}  // namespace ebbtide::allocator::test
