#include "trained_memory.hpp"

#include <gtest/gtest.h>

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

TEST_F(TrainedMemoryTest, AHostThatRefusedAWriteIsNotAskedAtOnce) {
  EXPECT_FALSE(memory_.hostRefuses());
  EXPECT_TRUE(memory_.stopOffload());
  EXPECT_TRUE(memory_.hostRefuses());
  EXPECT_FALSE(memory_.stopOffload());  // it did before
}

}  // namespace
}  // namespace ebbtide::plugin
