#include "search/run_log.hpp"

#include <gtest/gtest.h>

#include "small_graphs.hpp"

namespace ebbtide::scheduler {
namespace {

// Op i makes value i. Of the drops after a run, the copy made last comes first.

TEST(RunLog, DropsEachCopyAfterItsLastRead) {
  RunLog log;
  log.beginRun(0, true);
  const std::int32_t first = log.make(0, true);
  log.beginRun(1, true);
  log.read(first);
  log.make(1, true);
  log.beginRun(2, true);
  log.read(first);
  log.make(2, true);
  log.beginRun(0, false);
  const std::int32_t second = log.make(0, false);
  log.beginRun(3, true);
  log.read(second);
  log.make(3, true);
  EXPECT_EQ(log.runs(), 5u);
  EXPECT_TRUE(log.isFirst(first));
  EXPECT_FALSE(log.isFirst(second));
  // Values 1, 2 and 3 have no reader: they go after the run that makes them.
  EXPECT_EQ(toJson(log.schedule()), toJson({{run(0), run(1), drop(1), run(2), drop(2), drop(0),
                                             run(0), run(3), drop(3), drop(0)}}));
}

TEST(RunLog, LeavesOutReplaysThatNothingReads) {
  RunLog log;
  for (const bool first : {true, false}) {
    log.beginRun(0, first);
    const std::int32_t made = log.make(0, first);  // copies 0 and 2
    log.beginRun(1, first);
    log.read(made);
    log.make(1, first);  // copies 1 and 3
  }
  log.beginRun(2, true);
  log.read(1);
  log.make(2, true);
  // Nothing reads copy 3, so op 1's replay is out, and with it the only reader of copy 2.
  EXPECT_EQ(toJson(log.schedule()), toJson({{run(0), run(1), drop(0), run(2), drop(2), drop(1)}}));
}

TEST(RunLog, DropsAGraphInputThatNothingReadsBeforeTheFirstRun) {
  RunLog log;
  log.make(7, true);
  log.beginRun(0, true);
  EXPECT_EQ(toJson(log.schedule()), toJson({{drop(7), run(0)}}));
}

// Of two graph inputs, both read by op 0, op 0 writes over one and op 1 over the other.
TEST(RunLog, WhatIsOverwrittenInItsLastRunIsNotDropped) {
  RunLog log;
  const std::int32_t at_once = log.make(7, true), later = log.make(8, true);
  log.beginRun(0, true);
  log.read(at_once);
  log.read(later);
  log.overwrite(at_once);
  log.beginRun(1, true);
  log.overwrite(later);
  EXPECT_EQ(toJson(log.schedule()), toJson({{run(0), drop(8), run(1)}}));
}

// Op 0 makes values 0 and 1; its replay is for value 1 and makes value 0 once more. Op 2 reads
// value 1, and value 0 if `again`.
Schedule withRedundantCopy(bool again) {
  RunLog log;
  log.beginRun(0, true);
  const std::int32_t kept = log.make(0, true);
  log.make(1, true);
  log.beginRun(1, true);
  log.read(kept);
  log.beginRun(0, false);
  log.makeAgain(kept);
  const std::int32_t made = log.make(1, false);
  log.beginRun(2, true);
  log.read(made);
  if (again) log.read(kept);
  return log.schedule();
}

TEST(RunLog, ARedundantCopyIsDroppedWhereTheFirstOneIsGone) {
  // The first copy of value 0 ends with op 1; value 1 had no reader before op 2.
  EXPECT_EQ(toJson(withRedundantCopy(false)),
            toJson({{run(0), drop(1), run(1), drop(0), run(0), drop(0), run(2), drop(1)}}));
  // Where op 2 reads it, too, it ends there, and nothing is to be dropped before.
  EXPECT_EQ(toJson(withRedundantCopy(true)),
            toJson({{run(0), drop(1), run(1), run(0), run(2), drop(1), drop(0)}}));
}

}  // namespace
}  // namespace ebbtide::scheduler
