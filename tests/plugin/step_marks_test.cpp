#include "record/log/step_marks.hpp"

#include <gtest/gtest.h>

#include <memory>
#include <random>
#include <string>
#include <thread>
#include <vector>

namespace ebbtide::plugin {
namespace {

using Kind = scheduler::TraceEvent::Kind;
using Place = StepMarks::Place;

GroupMessage receiveFrom(std::int32_t peer) {
  return {{true, peer, 8, 0}, "pipe", 1, 2};
}

GroupMessage sendTo(std::int32_t peer) {
  return {{false, peer, 8, 0}, "pipe", 1, 2};
}

scheduler::Trace traceOf(EventLog& log) {
  scheduler::Trace trace;
  log.moveInto(trace);
  return trace;
}

// "r0" and "s0": received from and sent to rank 0; "[name" and "]name": a scope; "op", "pass".
std::string told(const scheduler::Trace& trace) {
  std::string text;
  for (const auto& event : trace.events) {
    const auto id = static_cast<std::size_t>(event.id);
    if (!text.empty()) text += ' ';
    if (event.kind == Kind::kMessage)
      text += (trace.messages.at(id).receive ? "r" : "s") + std::to_string(trace.messages[id].peer);
    if (event.kind == Kind::kScopeBegin) text += "[" + trace.scopes.at(id).name;
    if (event.kind == Kind::kScopeEnd) text += "]" + trace.scopes.at(id).name;
    if (event.kind == Kind::kOpBegin) text += "op";
    if (event.kind == Kind::kBackwardPass) text += "pass";
  }
  return text;
}

TEST(StepMarks, KnowsTheNamesOfPipelines) {
  for (const char* name :
       {"PP:1F0", "PP:0SEND_F3", "PP:(0F3;1B2)OVERLAP_F_B", "Forward 12", "Backward 0"}) {
    EXPECT_TRUE(namesPipelineAction(name)) << name;
  }
  const std::string long_name = "PP:" + std::string(300, '0');
  for (const char* name : {"", "PP", "Forward", "Forward ", "Forward x", "Forward 1 of 2",
                           "Optimizer.step#SGD.step", "PP:\xff", "PP:\n", long_name.c_str()}) {
    EXPECT_FALSE(namesPipelineAction(name)) << name;
  }
}

TEST(StepMarks, WhatComesBeforeTheStepIsItsFirstEvents) {
  StepMarks marks;
  marks.noteMessage(receiveFrom(0), Place::kBetween);
  const auto ended = marks.beginScope("PP:1RECV_F0", Place::kBetween);
  marks.endScope(ended);
  const auto open = marks.beginScope("PP:1F0", Place::kBetween);
  const auto log = std::make_shared<EventLog>(0);
  log->add(Kind::kBackwardPass, 0);  // by another thread meanwhile
  marks.joinStep(log);
  log->add(Kind::kOpBegin, 0);
  marks.endScope(open);
  marks.noteMessage(sendTo(0), Place::kInStep);
  marks.leaveStep();
  const scheduler::Trace trace = traceOf(*log);
  EXPECT_EQ(told(trace), "r0 [PP:1RECV_F0 ]PP:1RECV_F0 [PP:1F0 pass op ]PP:1F0 s0");
  EXPECT_EQ(trace.group, "pipe");
  EXPECT_EQ(trace.group_rank, 1);
  EXPECT_EQ(trace.group_size, 2);
  EXPECT_EQ(trace.events.front().at_ns, 0);  // the step began with the first of them
  EXPECT_EQ(trace.messages[0].busy_ns, 0);
  for (std::size_t i = 1; i < trace.events.size(); ++i)
    EXPECT_LE(trace.events[i - 1].at_ns, trace.events[i].at_ns) << i;
}

// A stage sends nothing before its first op; an evaluation has no step.
TEST(StepMarks, WhatNoStepWaitsForIsForgotten) {
  StepMarks marks;
  const auto evaluated = marks.beginScope("Forward 0", Place::kBetween);
  marks.noteMessage(receiveFrom(0), Place::kBetween);
  marks.noteMessage(sendTo(0), Place::kBetween);
  marks.endScope(evaluated);
  EXPECT_FALSE(marks.holds());
  marks.noteMessage(receiveFrom(0), Place::kBetween);
  marks.noteMessage(receiveFrom(0), Place::kEvaluation);
  EXPECT_FALSE(marks.holds());
  EXPECT_EQ(marks.beginScope("Forward 0", Place::kEvaluation), 0u);
  for (int i = 0; i < 1000; ++i) marks.noteMessage(receiveFrom(0), Place::kBetween);
  const auto log = std::make_shared<EventLog>(0);
  marks.joinStep(log);
  EXPECT_LE(traceOf(*log).messages.size(), 256u);
}

TEST(StepMarks, AStepThatWritesNoTraceNotesNothing) {
  StepMarks marks;
  EXPECT_TRUE(marks.wanted(Place::kBetween));
  marks.noteMessage(receiveFrom(0), Place::kBetween);
  marks.joinStep(nullptr);
  EXPECT_FALSE(marks.holds());
  EXPECT_FALSE(marks.wanted(Place::kInStep));
  EXPECT_EQ(marks.beginScope("Forward 0", Place::kInStep), 0u);
  marks.noteMessage(sendTo(0), Place::kInStep);
  marks.beginStage(0, 1, Place::kInStep);
  marks.leaveStep();
  EXPECT_FALSE(marks.holds());
}

TEST(StepMarks, AHintLastsUntilTheNextOneOrTheStepsEnd) {
  StepMarks marks;
  marks.beginStage(1, 0, Place::kBetween);
  const auto log = std::make_shared<EventLog>(0);
  marks.joinStep(log);
  log->add(Kind::kOpBegin, 0);
  marks.beginStage(1, 1, Place::kInStep);
  log->add(Kind::kOpBegin, 1);
  marks.leaveStep();
  const std::string expected = "[ebbtide:1:0 op ]ebbtide:1:0 [ebbtide:1:1 op ]ebbtide:1:1";
  marks.beginStage(1, 0, Place::kBetween);  // of the next step: the log is not asked any more
  EXPECT_EQ(told(traceOf(*log)), expected);
}

void workFor(std::int64_t least_ns) {
  const std::int64_t start_ns = ThreadMoment::now().busy_ns;
  while (ThreadMoment::now().busy_ns - start_ns < least_ns) {
  }
}

TEST(StepMarks, AScopeCountsTheWorkOfItsThread) {
  StepMarks marks;
  const auto log = std::make_shared<EventLog>(0);
  marks.joinStep(log);
  const std::int64_t before_ns = ThreadMoment::now().busy_ns;
  const auto scope = marks.beginScope("PP:0F0", Place::kInStep);
  workFor(1'000'000);
  std::thread([] { workFor(100'000'000); }).join();
  marks.endScope(scope);
  const std::int64_t all_ns = ThreadMoment::now().busy_ns - before_ns;
  const scheduler::Trace trace = traceOf(*log);
  const std::int64_t told_ns = trace.scopes[0].end_busy_ns - trace.scopes[0].begin_busy_ns;
  EXPECT_GE(told_ns, 1'000'000);
  EXPECT_LE(told_ns, all_ns);  // nothing of the other thread's
}

// Whatever a program does, in whatever order, the trace is one that a reader accepts.
TEST(StepMarks, AnyOrderGivesAValidTrace) {
  for (unsigned seed = 0; seed < 300; ++seed) {
    std::mt19937 random(seed);
    const auto pick = [&random](unsigned count) { return static_cast<int>(random() % count); };
    StepMarks marks;
    std::vector<StepMarks::Token> tokens = {0, 12'345};
    std::shared_ptr<EventLog> log;
    for (int i = 0; i < 60; ++i) {
      const auto place = log != nullptr && pick(4) > 0 ? Place::kInStep : Place(1 + pick(2));
      const int peer = pick(4) - 1;
      switch (pick(9)) {
        case 0:
        case 1:
          marks.noteMessage({{pick(2) == 0, peer, pick(9) - 1, 0},
                             pick(5) == 0 ? "data" : "pipe",
                             pick(9) == 0 ? scheduler::kNone : 1,
                             2},
                            place);
          break;
        case 2:
        case 3:
          tokens.push_back(marks.beginScope("Forward 0", place));
          break;
        case 4:
          marks.endScope(
              tokens[static_cast<std::size_t>(pick(static_cast<unsigned>(tokens.size())))]);
          break;
        case 5:
          marks.beginStage(pick(3), pick(3), place);
          break;
        case 6:
          if (log != nullptr) log->add(Kind::kBackwardPass, 0);
          break;
        case 7:
          if (log == nullptr) log = std::make_shared<EventLog>(0);
          marks.joinStep(log);
          break;
        default:
          if (log == nullptr || pick(2) == 0) break;
          if (pick(2) == 0) marks.leaveStep();
          const scheduler::Trace trace = traceOf(*log);
          EXPECT_EQ(toJson(scheduler::traceFromJson(toJson(trace))), toJson(trace)) << seed;
          marks.leaveStep();
          log.reset();
      }
    }
  }
}

}  // namespace
}  // namespace ebbtide::plugin
