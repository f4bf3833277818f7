#include "model/value_lives.hpp"

#include <gtest/gtest.h>

namespace ebbtide::scheduler {
namespace {

// Value 0 in block 0 is saved twice, value 1 in block 1 once, value 2 in block 1 never.
Trace threeValues() {
  Trace trace;
  trace.blocks.resize(2);
  trace.values.resize(3);
  trace.use_value = {0, 1, 0, kNone};
  return trace;
}

TEST(ValueLives, TheProgramHoldsAValueToItsLastReferenceOrItsBlocksEnd) {
  ValueLives lives(threeValues());
  EXPECT_EQ(lives.lastHeld(0, 0), kNone);
  EXPECT_EQ(lives.freedAt(0), kNone);
  lives.noteFreed(0, 5);
  EXPECT_EQ(lives.freedAt(0), 5);
  EXPECT_EQ(lives.lastHeld(0, 0), 5);
  lives.noteLastReference(0, 3);
  EXPECT_EQ(lives.lastHeld(0, 0), 3);
}

TEST(ValueLives, SavedTensorsHoldItUntilTheLastOneIsReleased) {
  constexpr OpId kLast = 9;
  ValueLives lives(threeValues());
  EXPECT_EQ(lives.savedUntil(2, kLast), kNone);
  EXPECT_EQ(lives.savedUntil(0, kLast), kLast);
  lives.noteRelease(0, 4);
  EXPECT_EQ(lives.savedUntil(0, kLast), kLast);  // one of two is left
  lives.noteRelease(0, 6);
  EXPECT_EQ(lives.savedUntil(0, kLast), 6);
  lives.noteRelease(kNone, 7);
}

TEST(ValueLives, AReleaseInAGapIsOfTheOpThatStandsForTheGap) {
  ValueLives lives(threeValues());
  lives.noteReleaseInGap(1);
  lives.endGap(7);
  EXPECT_EQ(lives.savedUntil(1, 9), 7);
  lives.endGap(8);  // of another gap
  EXPECT_EQ(lives.savedUntil(1, 9), 7);
}

}  // namespace
}  // namespace ebbtide::scheduler
