#include "runtime/steps/steps_to_record.hpp"

#include <gtest/gtest.h>

namespace ebbtide::plugin {
namespace {

int recorded(StepsToRecord& steps) {
  int count = 0;
  for (; steps.any(); ++count) steps.noteStep();
  return count;
}

TEST(StepsToRecord, ARunBeginsWithThree) {
  StepsToRecord steps;
  steps.atLeast(2);
  EXPECT_EQ(recorded(steps), 3);
  steps.noteStep();
  steps.atLeast(2);
  EXPECT_EQ(recorded(steps), 2);
}

TEST(StepsToRecord, WhatDoesNotReturnIsWatchedForTwiceAsLong) {
  StepsToRecord steps;
  for (const int expected : {100, 200, 400}) {
    steps.watchForReturn();
    EXPECT_EQ(recorded(steps), expected);
  }
}

// The one that returned is recorded, and once more for its verification step; the next one is new.
TEST(StepsToRecord, WhatReturnedIsWatchedForNoMore) {
  StepsToRecord steps;
  steps.watchForReturn();
  steps.watchForReturn();
  steps.noteSeen();
  EXPECT_EQ(recorded(steps), 2);
  steps.watchForReturn();
  EXPECT_EQ(recorded(steps), 100);
}

}  // namespace
}  // namespace ebbtide::plugin
