#include "runtime/run/run_figures.hpp"

#include <gtest/gtest.h>

namespace ebbtide::plugin {
namespace {

TEST(RunFigures, TimeIsThatOfAllSteps) {
  RunFigures figures;
  EXPECT_EQ(figures.firstSeconds(), 0);
  EXPECT_EQ(figures.totalSeconds(), 0);
  for (const double seconds : {9.0, 1.0, 4.0, 2.0}) figures.addStep(seconds);
  EXPECT_EQ(figures.firstSeconds(), 9);
  EXPECT_EQ(figures.totalSeconds(), 16);
}

TEST(RunFigures, WhatNoBudgetCountsIsTheMostOfAStep) {
  RunFigures figures;
  for (const std::int64_t bytes : {8, 30, 0}) figures.noteUncounted(bytes);
  figures.forgetPeaks();  // another budget counts it no more than this one
  EXPECT_EQ(figures.uncountedBytes(), 30);
}

TEST(RunFigures, PeaksAreTheLargestUntilTheyAreForgotten) {
  RunFigures figures;
  figures.notePeaks({.allocated_peak_bytes = 50, .mapped_peak_bytes = 70});
  figures.notePeaks({.allocated_peak_bytes = 40, .mapped_peak_bytes = 90});
  EXPECT_EQ(figures.allocatedPeakBytes(), 50);
  EXPECT_EQ(figures.mappedPeakBytes(), 90);
  figures.forgetPeaks();
  EXPECT_EQ(figures.mappedPeakBytes(), 0);
}

// 100 live at its start; +10 +20 -10 +5 -20 -5 gives 100 110 130 120 125 105 100. Mapped are 120,
// from the second second on 140, from between the fifth and the sixth on 110.
TEST(RunFigures, AThinnedTimelineKeepsThePeaks) {
  using Kind = scheduler::TraceEvent::Kind;
  scheduler::Trace trace;
  trace.base_bytes = 100;
  for (const std::int64_t bytes : {10, 20, 5}) trace.blocks.push_back({.bytes = bytes});
  std::int64_t second = 0;
  for (const auto& [kind, block] : std::vector<std::pair<Kind, int>>{{Kind::kAlloc, 0},
                                                                     {Kind::kAlloc, 1},
                                                                     {Kind::kFree, 0},
                                                                     {Kind::kAlloc, 2},
                                                                     {Kind::kFree, 1},
                                                                     {Kind::kFree, 2}}) {
    trace.events.push_back({.kind = kind, .id = block, .at_ns = ++second * 1'000'000'000});
    trace.events.push_back({.kind = Kind::kOpBegin, .id = 0, .at_ns = second * 1'000'000'000});
  }
  trace.mapped = {{0, 120}, {2'000'000'000, 140}, {5'500'000'000, 110}};
  RunFigures figures;
  EXPECT_TRUE(figures.timeline()->empty());
  figures.noteTimeline(trace);
  EXPECT_EQ(RunFigures::thinned(*figures.timeline(), 10), (RunFigures::Timeline{{0, 100, 120},
                                                                                {1, 110, 120},
                                                                                {2, 130, 140},
                                                                                {3, 120, 140},
                                                                                {4, 125, 140},
                                                                                {5, 105, 140},
                                                                                {6, 100, 110}}));
  // 7 points in stretches of 7 / 3 + 1 = 3: of 100 110 130, of 120 125 105, of 100.
  EXPECT_EQ(RunFigures::thinned(*figures.timeline(), 3),
            (RunFigures::Timeline{{2, 130, 140}, {4, 125, 140}, {6, 100, 110}}));
}

// Of the stretch 100 110 130 the second one has most mapped, the third one most live bytes.
TEST(RunFigures, TheMostThatWasMappedNeedNotBeWhereMostLives) {
  using Kind = scheduler::TraceEvent::Kind;
  scheduler::Trace trace;
  trace.base_bytes = 100;
  trace.blocks = {{.bytes = 10}, {.bytes = 20}};
  trace.events = {{Kind::kAlloc, 0, 1'000'000'000}, {Kind::kAlloc, 1, 2'000'000'000}};
  trace.mapped = {{0, 120}, {1'000'000'000, 150}, {2'000'000'000, 140}};
  RunFigures figures;
  figures.noteTimeline(trace);
  EXPECT_EQ(RunFigures::thinned(*figures.timeline(), 1), (RunFigures::Timeline{{2, 130, 150}}));
}

}  // namespace
}  // namespace ebbtide::plugin
