#include "runtime/steps/recorded_steps.hpp"

#include <gtest/gtest.h>

namespace ebbtide::plugin {
namespace {

RecordedStep recorded(std::uint64_t program, std::int64_t base_bytes, std::size_t ops = 1) {
  auto trace = std::make_shared<scheduler::Trace>();
  trace->signature = program;
  trace->base_bytes = base_bytes;
  trace->ops.resize(ops);
  return {std::move(trace), false};
}

std::vector<std::uint64_t> programsOf(const RecordedSteps& steps) {
  std::vector<std::uint64_t> programs;
  for (const RecordedStep& step : steps.all()) programs.push_back(step.trace->signature);
  return programs;
}

TEST(RecordedSteps, TheLargestIsNotTheLast) {
  RecordedSteps steps;
  EXPECT_EQ(steps.largest().trace, nullptr);
  steps.add(recorded(1, 500));
  steps.add(recorded(2, 100));
  EXPECT_EQ(steps.largest().trace->signature, 1u);
  steps.add(recorded(1, 50));  // in place of the one before
  EXPECT_EQ(steps.size(), 2u);
  EXPECT_EQ(steps.largest().trace->signature, 2u);
}

// 10 live at the start, and a block of 30 that is saved twice: 40. One of 25 is not saved, one of
// 20 is among the 10.
TEST(RecordedSteps, WhatIsSavedCountsOnce) {
  auto trace = std::make_shared<scheduler::Trace>();
  trace->signature = 1;
  trace->base_bytes = 10;
  trace->blocks = {{.bytes = 30}, {.bytes = 25}, {.bytes = 20, .before_step = true}};
  trace->values = {{.block = 0}, {.block = 1}, {.block = 2}, {}};
  trace->use_value = {0, 0, 2, 3};
  RecordedSteps steps;
  steps.add({trace, false});
  steps.add(recorded(2, 41));
  EXPECT_EQ(steps.largest().trace->signature, 2u);
  steps.add(recorded(2, 39));
  EXPECT_EQ(steps.largest().trace->signature, 1u);
}

TEST(RecordedSteps, OfManyProgramsThoseThatHoldMostStay) {
  RecordedSteps steps;
  for (std::uint64_t program = 1; program <= 20; ++program)
    steps.add(recorded(program, static_cast<std::int64_t>(program % 2 == 0 ? program : 100)));
  EXPECT_EQ(programsOf(steps), (std::vector<std::uint64_t>{5, 7, 9, 11, 13, 15, 17, 19}));
}

TEST(RecordedSteps, LargeTracesAreFewer) {
  RecordedSteps steps;
  steps.add(recorded(1, 30, RecordedSteps::kMostOps / 2));
  steps.add(recorded(2, 20, RecordedSteps::kMostOps / 2));
  EXPECT_EQ(steps.size(), 2u);
  steps.add(recorded(3, 40, 2 * RecordedSteps::kMostOps));
  EXPECT_EQ(programsOf(steps), std::vector<std::uint64_t>{3});
}

// As long as it follows its plan, unrecorded, it runs.
TEST(RecordedSteps, WhatRunsNoMoreIsForgotten) {
  RecordedSteps steps;
  steps.noteStep(1);
  steps.add(recorded(1, 10));
  steps.noteStep(2);
  steps.add(recorded(2, 20));
  for (std::int64_t i = 0; i + 1 < RecordedSteps::kLately; ++i) steps.noteStep(1);
  EXPECT_EQ(steps.size(), 2u);
  steps.noteStep(1);  // the 1000th since
  EXPECT_EQ(programsOf(steps), std::vector<std::uint64_t>{1});
  for (std::int64_t i = 0; i < 2 * RecordedSteps::kLately; ++i) steps.noteStep(3);
  EXPECT_EQ(steps.size(), 1u);  // never the last one
}

}  // namespace
}  // namespace ebbtide::plugin
