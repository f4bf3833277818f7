#include "memory/planned_life.hpp"

#include <gtest/gtest.h>

#include <random>

namespace ebbtide::plugin {
namespace {

TEST(PlannedLife, BeginsWithThePlan) {
  const PlannedLife value;
  EXPECT_FALSE(value.leftToUses());
  EXPECT_FALSE(value.madeAgain());
  EXPECT_FALSE(value.rejected());
  EXPECT_EQ(value.fetchesDone(), 0);
}

TEST(PlannedLife, IsLeftToItsUsesUntilItIsFetched) {
  PlannedLife value;
  value.leaveToUses();
  EXPECT_TRUE(value.leftToUses());
  value.noteFetched();  // the plan drops it
  EXPECT_FALSE(value.leftToUses());
  EXPECT_EQ(value.fetchesDone(), 1);
}

TEST(PlannedLife, ADropLeavesItToItsUsesWhereItSaysSo) {
  PlannedLife value;
  value.leaveToUsesIf(true);
  EXPECT_TRUE(value.leftToUses());
  value.leaveToUsesIf(false);
  EXPECT_FALSE(value.leftToUses());
}

TEST(PlannedLife, WhatIsMadeAgainStaysUntilItsDrop) {
  PlannedLife value;
  value.leaveToUses();
  value.noteReplayed();
  EXPECT_TRUE(value.madeAgain());
  EXPECT_TRUE(value.leftToUses());  // off the plan its last use lets it go still
  value.noteDropDue();
  EXPECT_FALSE(value.madeAgain());
  EXPECT_TRUE(value.leftToUses());
}

TEST(PlannedLife, WhatIsRejectedIsNotMadeAgainByAReplay) {
  PlannedLife value;
  value.noteReplayed();
  value.reject();
  EXPECT_TRUE(value.madeAgain());  // by the one before
  value.noteReplayed();
  EXPECT_FALSE(value.madeAgain());
  value.noteDropDue();
  EXPECT_TRUE(value.rejected());  // for good
}

// It came from its copy, and is not to go before the plan's next replay reads it.
TEST(PlannedLife, WhatIsThereStaysThoughAReplayWasRejected) {
  PlannedLife value;
  value.reject();
  value.noteThere();
  EXPECT_TRUE(value.madeAgain());
}

// The same value as loose flags, each transition written out.
struct Flags {
  bool release_after_uses = false, made_again = false, rejected = false;
  int fetches_done = 0;
};

TEST(PlannedLife, InAnyOrderItIsWhatItsFlagsWouldBe) {
  std::mt19937 random(1);
  PlannedLife value;
  Flags flags;
  for (int step = 0; step < 5000; ++step) {
    if (step % 50 == 0) value = {}, flags = {};
    const bool coin = random() % 2 == 0;
    switch (random() % 7) {
      case 0:
        value.leaveToUses(), flags.release_after_uses = true;
        break;
      case 1:
        value.leaveToUsesIf(coin), flags.release_after_uses = coin;
        break;
      case 2:
        value.noteDropDue(), flags.made_again = false;
        break;
      case 3:
        value.noteReplayed(), flags.made_again = !flags.rejected;
        break;
      case 4:
        value.noteThere(), flags.made_again = true;
        break;
      case 5:
        if (coin) value.reject(), flags.rejected = true;
        break;
      default:
        value.noteFetched(), flags.release_after_uses = false, ++flags.fetches_done;
    }
    ASSERT_EQ(value.leftToUses(), flags.release_after_uses) << "step " << step;
    ASSERT_EQ(value.madeAgain(), flags.made_again) << "step " << step;
    ASSERT_EQ(value.rejected(), flags.rejected) << "step " << step;
    ASSERT_EQ(value.fetchesDone(), flags.fetches_done) << "step " << step;
  }
}

}  // namespace
}  // namespace ebbtide::plugin
