#include "memory/later_blocks.hpp"

#include <gtest/gtest.h>

#include <array>

#include "base/thread_scopes.hpp"

namespace ebbtide::plugin {
namespace {

constexpr LaterBlocks::Bytes kMiB = 1 << 20;

class LaterBlocksTest : public ::testing::Test {
 protected:
  void SetUp() override { later_.start(4, 10 * kMiB); }
  void TearDown() override { inTrainingOp() = false; }
  // As an op between steps that makes these blocks.
  void make(const char* by, std::size_t first, std::size_t count, LaterBlocks::Bytes bytes = kMiB) {
    unrecordedOp() = {this, by};
    for (std::size_t i = first; i < first + count; ++i)
      later_.onAllocated(&places_[i], static_cast<std::size_t>(bytes));
    unrecordedOp() = {};
  }

  std::array<char, LaterBlocks::kMostBlocks + 8> places_{};
  LaterBlocks later_;
};

TEST_F(LaterBlocksTest, NamesWhatTheBaseGrewBy) {
  make("aten::clone", 0, 6);
  EXPECT_FALSE(later_.largest());  // the base has not told yet
  later_.beginStep(5, 16 * kMiB);
  const auto most = later_.largest();
  ASSERT_TRUE(most);
  EXPECT_EQ(most->by, "aten::clone");
  EXPECT_EQ(most->blocks, 6);
  EXPECT_EQ(most->bytes, 6 * kMiB);
  EXPECT_EQ(most->each_bytes, kMiB);
  EXPECT_EQ(most->step, 4);
  EXPECT_EQ(most->times, 1);
}

// One is of a step that has ended, and stays; of the two since then one is freed.
TEST_F(LaterBlocksTest, TellsWhatCameSinceTheStepBegan) {
  EXPECT_TRUE(later_.sinceStep().empty());
  make("aten::clone", 0, 1);
  ASSERT_EQ(later_.sinceStep().size(), 1U);
  later_.beginStep(5, 11 * kMiB);
  EXPECT_TRUE(later_.sinceStep().empty());
  make("aten::linear", 1, 2);
  later_.onFreed(&places_[1]);
  const auto made = later_.sinceStep();
  ASSERT_EQ(made.size(), 1U);
  EXPECT_EQ(made[0].first, &places_[2]);
  EXPECT_EQ(made[0].second, "aten::linear");
}

// An average that is made anew; then the base grows by what nobody named.
TEST_F(LaterBlocksTest, WhatTakesAnothersPlaceIsNoGrowth) {
  make("aten::add", 0, 6);
  later_.beginStep(5, 10 * kMiB);
  later_.beginStep(6, 16 * kMiB);
  EXPECT_FALSE(later_.largest());
}

TEST_F(LaterBlocksTest, WhatIsFreedIsForgotten) {
  make("aten::clone", 0, 2);
  later_.beginStep(5, 12 * kMiB);
  later_.onFreed(&places_[0]);
  EXPECT_EQ(later_.largest()->blocks, 1);
  later_.onAllocated(&places_[0], 1 << 20);  // its address again, of no such op
  EXPECT_EQ(later_.largest()->blocks, 1);
  later_.onFreed(&places_[1]);
  EXPECT_FALSE(later_.largest());
}

TEST_F(LaterBlocksTest, CountsTheTimes) {
  make("aten::clone", 0, 1);
  later_.beginStep(5, 11 * kMiB);
  later_.beginStep(6, 11 * kMiB);
  make("aten::clone", 1, 1, 2 * kMiB);
  later_.beginStep(7, 13 * kMiB);
  const auto most = later_.largest();
  ASSERT_TRUE(most);
  EXPECT_EQ(most->times, 2);
  EXPECT_EQ(most->step, 4);
  EXPECT_EQ(most->each_bytes, 0);
}

TEST_F(LaterBlocksTest, PassesOverTheRest) {
  make("aten::clone", 0, 1, LaterBlocks::kLeastBytes - 1);
  inTrainingOp() = true;
  make("aten::mm", 1, 1);
  inTrainingOp() = false;
  {
    const QuietScope ours;
    make("aten::mm", 2, 1);
  }
  later_.beginStep(5, 20 * kMiB);
  EXPECT_FALSE(later_.largest());
}

// Half of what was made may be hidden by a batch that is smaller now, not more.
TEST_F(LaterBlocksTest, LeavesSomethingForABatch) {
  make("aten::clone", 0, 16);
  make("aten::add", 16, 17);
  later_.beginStep(5, 18 * kMiB);
  EXPECT_EQ(later_.largest()->by, "aten::clone");
}

// Though the base grows by something else in that step.
TEST_F(LaterBlocksTest, WhatIsMadeAnewInEachStepIsNoGrowthOfOne) {
  make("aten::add", 0, 6);
  later_.beginStep(5, 10 * kMiB);
  for (std::size_t i = 0; i < 6; ++i) later_.onFreed(&places_[i]);
  make("aten::add", 6, 6);
  later_.beginStep(6, 16 * kMiB);
  EXPECT_FALSE(later_.largest());
}

TEST_F(LaterBlocksTest, WhatStayedIsToldWhenTooManyCome) {
  make("aten::clone", 0, 6);
  later_.beginStep(5, 16 * kMiB);
  make("aten::add", 6, LaterBlocks::kMostBlocks);
  later_.beginStep(6, 10'000 * kMiB);
  EXPECT_EQ(later_.largest()->blocks, 6);
}

TEST_F(LaterBlocksTest, OfTooManyNoneIsTold) {
  make("aten::clone", 0, LaterBlocks::kMostBlocks + 1);
  later_.beginStep(5, 10'000 * kMiB);
  EXPECT_FALSE(later_.largest());
}

}  // namespace
}  // namespace ebbtide::plugin
