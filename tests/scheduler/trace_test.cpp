#include "ebbtide/scheduler/trace.hpp"

#include <gtest/gtest.h>

#include <functional>
#include <stdexcept>
#include <string>

#include "ebbtide/scheduler/graph_builder.hpp"
#include "ebbtide/scheduler/graph_file.hpp"
#include "ebbtide/scheduler/simulator.hpp"
#include "ebbtide/scheduler/value_copies.hpp"
#include "small_traces.hpp"

namespace ebbtide::scheduler {
namespace {

TEST(TraceGraph, EventsBecomeOpsAndFixedBytesLeaveOutWhatPlansDecide) {
  const auto graph = buildGraph(twoOps());
  // Two forward ops and two backward events.
  ASSERT_EQ(graph.graph.ops.size(), 4u);
  EXPECT_EQ(graph.events_of_use, (std::vector<std::vector<OpId>>{{3}, {2}}));
  // x's 50 B are a value of the graph, so 1000 - 50 are fixed.
  EXPECT_EQ(graph.graph.ops[0].fixed_bytes, 950);
  // At the end of forward v1 and v2 live: 100 + 100 over the start.
  EXPECT_EQ(graph.activation_bytes, 200);
  // Nothing dropped: 950 fixed, 50 x, 100 v1, 100 v2.
  EXPECT_EQ(simulate(graph.graph, keepEverything(graph.graph)).peak_bytes, 1200);
}

// The gradient that the first node makes before it reads what was saved is no activation.
TEST(TraceGraph, ActivationsAreCountedWhenTheBackwardPassBegins) {
  Trace trace = twoOps();
  trace.blocks.push_back({400, false, false});
  trace.events.insert(trace.events.begin() + 9, {TraceEvent::Kind::kAlloc, 3, 7});
  const auto graph = buildGraph(trace);
  EXPECT_EQ(graph.activation_bytes, 200);
}

// A loss whose backward pass did not run in this step may run in another.
TEST(TraceGraph, AUseThatWasNeverUnpackedLeavesItsBlockToTheProgram) {
  Trace trace = twoOps();
  trace.use_value.push_back(1);  // a third use, of v1
  trace.events.push_back({TraceEvent::Kind::kRelease, 2, 13});
  const auto graph = buildGraph(trace);
  EXPECT_TRUE(graph.events_of_use[2].empty());
  EXPECT_TRUE(graph.graph.values[1].pinned);
  EXPECT_FALSE(graph.graph.ops[0].rerunnable);
  EXPECT_FALSE(graph.graph.values[2].pinned);
  // v1's 100 B are fixed now, from its allocation on: 950 + 100.
  EXPECT_EQ(graph.graph.ops[1].fixed_at_start, 1050);
  EXPECT_EQ(simulate(graph.graph, keepEverything(graph.graph)).peak_bytes, 1200);
}

TEST(TraceJson, RoundTrips) {
  const auto trace = twoOps();
  const auto again = traceFromJson(toJson(trace));
  EXPECT_EQ(toJson(again), toJson(trace));
  EXPECT_EQ(again.events.size(), trace.events.size());
}

TEST(TraceJson, RoundTripsWhatARankDoes) {
  const Trace trace = twoOpsOfARank();
  const Trace again = traceFromJson(toJson(trace));
  EXPECT_EQ(toJson(again), toJson(trace));
  EXPECT_EQ(again.messages, trace.messages);
  EXPECT_EQ(again.scopes, trace.scopes);
  EXPECT_EQ(again.group, "pipe");
  EXPECT_EQ(again.group_rank, 1);
  EXPECT_EQ(again.group_size, 2);
  ASSERT_EQ(again.events.size(), trace.events.size());
  for (std::size_t i = 0; i < trace.events.size(); ++i) {
    EXPECT_EQ(again.events[i].kind, trace.events[i].kind) << i;
    EXPECT_EQ(again.events[i].id, trace.events[i].id) << i;
  }
}

// As every file was before ranks were recorded.
TEST(TraceJson, OfOneRankAloneSaysNothingOfOthers) {
  const std::string text = toJson(twoOps());
  for (const char* key : {"group", "messages", "scopes"})
    EXPECT_EQ(text.find(key), std::string::npos) << key;
  const Trace trace = traceFromJson(text);
  EXPECT_EQ(trace.group_rank, kNone);
  EXPECT_EQ(trace.group_size, 0);
}

TEST(TraceJson, RoundTripsWhatWasMapped) {
  Trace trace = twoOps();
  EXPECT_EQ(toJson(trace).find("mapped"), std::string::npos);  // files of before have none
  trace.mapped = {{0, 4096}, {3, 8192}, {3, 4096}};
  EXPECT_EQ(traceFromJson(toJson(trace)).mapped, trace.mapped);
}

TEST(TraceJson, NamesThatAreNoTextDoNotKeepItFromBeingWritten) {
  Trace trace = twoOpsOfARank();
  trace.scopes[0].name = "PP:\xff";
  EXPECT_EQ(traceFromJson(toJson(trace)).scopes[0].name, "PP:\xef\xbf\xbd");  // U+FFFD
}

TEST(TraceJson, DamageIsNamed) {
  for (
      const char* text :
      {"", "{", "[]", "{}", R"({"format":"other"})",
       R"({"format":"ebbtide-trace-1","signature":1,"base_bytes":0,"duration_ns":0,"ops":[["a",1,1,true,[7],[]]],)"
       R"("values":[],"use_value":[],"blocks":[],"events":[]})"}) {
    EXPECT_THROW(traceFromJson(text), std::invalid_argument) << text;
  }
}

// What is wrong with it, "" if nothing is.
std::string problem(const Trace& trace) {
  try {
    buildGraph(trace);
  } catch (const std::invalid_argument& error) {
    return error.what();
  }
  return "";
}

TEST(CheckTrace, NamesTheIdThatIsOutOfRange) {
  struct Damage {
    std::function<void(Trace&)> apply;
    const char* message;
  };
  const Damage damages[] = {
      {[](Trace& t) { t.ops[1].outputs[0] = -1; }, "trace: ops[1] output -1 is out of range"},
      {[](Trace& t) { t.ops[0].inputs[0] = -1; }, "trace: ops[0] input -1 is out of range"},
      {[](Trace& t) { t.ops[0].inputs[0] = 3; }, "trace: ops[0] input 3 is out of range"},
      {[](Trace& t) { t.values[0].producer = 2; }, "trace: values[0] producer 2 is out of range"},
      {[](Trace& t) { t.values[2].block = 3; }, "trace: values[2] block 3 is out of range"},
      {[](Trace& t) { t.values[2].previous_epoch = -2; },
       "trace: values[2] previous_epoch -2 is out of range"},
      {[](Trace& t) { t.values[1].overwritten_by = -7; },
       "trace: values[1] overwritten_by -7 is out of range"},
      {[](Trace& t) { t.values[1].overwritten_by = 2; },
       "trace: values[1] overwritten_by 2 is out of range"},
      {[](Trace& t) { t.use_value[1] = 3; }, "trace: use_value[1] value 3 is out of range"},
      {[](Trace& t) { t.events[0].id = 2; }, "trace: events[0] id 2 is out of range"},
      {[](Trace& t) { t.events[1].id = -1; }, "trace: events[1] id -1 is out of range"},
  };
  for (const Damage& damage : damages) {
    Trace trace = twoOps();
    damage.apply(trace);
    EXPECT_EQ(problem(trace), damage.message);
  }
  EXPECT_EQ(problem(twoOps()), "");
}

TEST(CheckTrace, NamesWhatIsWrongWithMessagesAndScopes) {
  struct Damage {
    std::function<void(Trace&)> apply;
    const char* message;
  };
  // Events 0, 1: the first message, the first scope; the last two: the second scope's end, the
  // second message.
  const Damage damages[] = {
      {[](Trace& t) { t.group_rank = 2; }, "trace: group_rank 2 is none of a group of 2"},
      {[](Trace& t) { t.group_rank = kNone; }, "trace: group_rank -1 is none of a group of 2"},
      {[](Trace& t) { t.group_rank = kNone, t.group_size = 0; },
       "trace: has messages, but no group that carries them"},
      {[](Trace& t) { t.messages[0].peer = 2; }, "trace: messages[0] peer 2 is out of range"},
      {[](Trace& t) { t.messages[1].peer = kNone; }, "trace: messages[1] peer -1 is out of range"},
      {[](Trace& t) { t.messages[1].bytes = -1; }, "trace: messages[1] has negative bytes"},
      {[](Trace& t) {
         t.mapped = {{0, -1}};
       },
       "trace: mapped[0] has negative bytes"},
      {[](Trace& t) {
         t.mapped = {{-1, 1}};
       },
       "trace: mapped[0] is before the one before it"},
      {[](Trace& t) {
         t.mapped = {{5, 1}, {4, 1}};
       },
       "trace: mapped[1] is before the one before it"},
      {[](Trace& t) { t.messages[0].bytes = Bytes{1} << 60; },
       "trace: messages[0] brings the bytes of all to more than 2^60"},
      {[](Trace& t) { t.messages[1].busy_ns = -1; }, "trace: messages[1] has a negative time"},
      {[](Trace& t) { t.scopes[0].begin_busy_ns = -1; }, "trace: scopes[0] has a negative time"},
      {[](Trace& t) { t.scopes[1].end_busy_ns = 5; }, "trace: scopes[1] ends before it begins"},
      {[](Trace& t) { t.events[0].id = 2; }, "trace: events[0] id 2 is out of range"},
      {[](Trace& t) { t.events[0].id = 1; }, "trace: events[0] comes out of turn"},
      {[](Trace& t) { t.events[1].id = 1; }, "trace: events[1] comes out of turn"},
      {[](Trace& t) { t.events.back().id = 0; }, "trace: events[22] comes out of turn"},
      {[](Trace& t) { t.events.pop_back(); }, "trace: messages[1] has no event"},
      {[](Trace& t) {
         t.events[1] = {TraceEvent::Kind::kScopeEnd, 0, 0};
       },
       "trace: events[1] ends no open scope"},
      {[](Trace& t) { (t.events.end() - 2)->id = 0; }, "trace: events[21] ends no open scope"},
      {[](Trace& t) { t.events.erase(t.events.end() - 2); }, "trace: scopes[1] does not end"},
  };
  ASSERT_EQ(twoOpsOfARank().events.size(), 23u);  // 16 + 2 messages + 4 of scopes + 1 pass
  for (const Damage& damage : damages) {
    Trace trace = twoOpsOfARank();
    damage.apply(trace);
    EXPECT_EQ(problem(trace), damage.message);
  }
  EXPECT_EQ(problem(twoOpsOfARank()), "");
  Trace from_any = twoOpsOfARank();
  from_any.messages[0].peer = kNone;
  EXPECT_EQ(problem(from_any), "");
}

// Received after the two ops and before the backward pass, while 3 bytes more are live: op 2 waits.
Trace receivesBeforeBackward(std::size_t event) {
  using Kind = TraceEvent::Kind;
  Trace trace = twoOps();
  trace.group_rank = 0;
  trace.group_size = 2;
  trace.messages = {{true, 1, 50, 0}};
  trace.blocks.push_back({3, false, false});
  const auto at = trace.events.begin() + static_cast<std::ptrdiff_t>(event);
  trace.events.insert(at, {{Kind::kAlloc, 3, 6}, {Kind::kMessage, 0, 6}, {Kind::kFree, 3, 6}});
  return trace;
}

TEST(BuildGraph, MakesAnOpThatWaitsOfAReceive) {
  const TraceGraph step = buildGraph(receivesBeforeBackward(8));
  ASSERT_EQ(step.graph.ops.size(), 5u);
  const Op& wait = step.graph.ops[2];
  EXPECT_TRUE(wait.waits);
  EXPECT_FALSE(wait.backward || wait.rerunnable);
  EXPECT_EQ(wait.fixed_bytes, 953);  // base 1000 less x of 50, which is managed, and 3
  EXPECT_EQ(step.trace_op_of[2], kNone);
  EXPECT_EQ(step.events_of_use, (std::vector<std::vector<OpId>>{{4}, {3}}));
}

// Events 3 and 4 begin op 1 and allocate its output: what it asks for it waits for after it.
TEST(BuildGraph, WaitsAfterTheOpThatAsks) {
  const TraceGraph step = buildGraph(receivesBeforeBackward(5));
  EXPECT_TRUE(step.graph.ops[2].waits);
  EXPECT_EQ(step.op_of_trace_op, (std::vector<OpId>{0, 1}));
}

// Between an unpack and the release, as where the graph is kept: the event ends there.
TEST(BuildGraph, AWaitEndsAnEvent) {
  const TraceGraph step = buildGraph(receivesBeforeBackward(10));
  EXPECT_TRUE(step.graph.ops[2].backward && step.graph.ops[3].waits && step.graph.ops[4].backward);
}

TEST(BuildGraph, CopiesOfValuesMoveWaits) {
  Trace trace = receivesBeforeBackward(8);
  trace.values[2].encoded_bytes = 10;
  trace.values[2].codec_ns = 1;
  TraceGraph step = buildGraph(trace);
  addValueCopies(trace, step);
  ASSERT_EQ(step.graph.ops.size(), 6u);  // op 2 restores the value
  EXPECT_TRUE(step.graph.ops[3].waits);
}

TEST(BuildGraph, SentMessagesScopesAndPassesChangeNoGraph) {
  const TraceGraph alone = buildGraph(twoOps());
  Trace trace = twoOpsOfARank();
  trace.messages[0].receive = false;
  const TraceGraph of_a_rank = buildGraph(trace);
  EXPECT_EQ(toJson(of_a_rank.graph), toJson(alone.graph));
  EXPECT_EQ(of_a_rank.events_of_use, alone.events_of_use);
  EXPECT_EQ(of_a_rank.activation_bytes, alone.activation_bytes);
}

// A block counts once itself, once for each value in it and once for each event on it. Block 1 has
// one value and two events, so with 2^58 bytes it is 2^60 alone; the base, block 0 and block 2 make
// 1000 + 2 x 50 + 4 x 100. A quarter of that less in block 1, and the sum is 2^60 exactly.
TEST(CheckTrace, CapsWhatBytesMaySumTo) {
  Trace trace = twoOps();
  trace.blocks[1].bytes = Bytes{1} << 58;
  EXPECT_EQ(problem(trace), "trace: events[15] brings the bytes of all to more than 2^60");
  trace.blocks[1].bytes -= (1000 + 2 * 50 + 4 * 100) / 4;
  EXPECT_EQ(problem(trace), "");
  trace.blocks[1].bytes = (Bytes{1} << 60) + 1;
  EXPECT_EQ(problem(trace), "trace: blocks[1] has more than 2^60 bytes");
  trace = twoOps();
  trace.base_bytes = -1;
  EXPECT_EQ(problem(trace), "trace: base_bytes -1 is out of range");
}

// v1's use is never unpacked: v1 is the program's, or, for the floor, a value like any other.
TEST(BuildGraph, WhatIsNeverReadStaysOrMayGo) {
  Trace trace = twoOps();
  std::erase_if(trace.events, [](const TraceEvent& event) {
    return event.kind == TraceEvent::Kind::kUnpack && event.id == 0;
  });
  EXPECT_TRUE(buildGraph(trace).graph.values[1].pinned);
  const Value value = buildGraph(trace, {.unread_may_go = true}).graph.values[1];
  EXPECT_FALSE(value.pinned);
  EXPECT_EQ(value.bytes, 100);
  EXPECT_EQ(value.last_reference, 1);  // the op after which the program let go of it
}

// Op 1 reads v1; then v1 is written over while its use lives. What was there before is nowhere.
TEST(BuildGraph, AnOpThatReadWhatWasWrittenOverIsNotRunAgain) {
  Trace trace = twoOps();
  EXPECT_TRUE(buildGraph(trace).graph.ops[1].rerunnable);
  trace.values[1].overwritten_by = 2;
  trace.ops.push_back({"third", 13, 1, true, {2}, {}});
  const TraceEvent begin = {TraceEvent::Kind::kOpBegin, 2, 6};
  const TraceEvent end = {TraceEvent::Kind::kOpEnd, 2, 6};
  trace.events.insert(trace.events.begin() + 6, {begin, end});
  const Graph graph = buildGraph(trace).graph;
  EXPECT_TRUE(graph.values[1].pinned);
  EXPECT_FALSE(graph.ops[1].rerunnable);
}

// Op 1 reads a parameter, whose memory goes away and comes back unseen (a sharded model's), or goes
// at the end of the backward pass. Event 2 reads what op 1 made, event 3 what op 0 made.
TEST(BuildGraph, AnOpThatReadAParameterWhichIsFreedIsNotRunAgainAfterThat) {
  using Kind = TraceEvent::Kind;
  const auto graph = [](std::ptrdiff_t freed_at) {
    Trace trace = twoOps();
    trace.blocks.push_back({70, true, false});
    trace.values.push_back({kNone, 3, kNone, kNone, true});
    trace.ops[1].inputs = {1, 3};
    trace.events.insert(trace.events.begin() + freed_at, {Kind::kFree, 3, 6});
    return buildGraph(trace).graph;
  };
  EXPECT_FALSE(graph(6).ops[1].rerunnable);  // after op 1
  EXPECT_TRUE(graph(6).ops[0].rerunnable);
  EXPECT_TRUE(graph(10).ops[1].rerunnable);  // in event 2
  EXPECT_TRUE(graph(16).ops[1].rerunnable);  // after event 3
}

// Op 0 reads it. What it makes nobody reads but op 1, which would be run again for event 2.
TEST(BuildGraph, NorIsAnOpThatItsReadersWouldNeedRunAgain) {
  using Kind = TraceEvent::Kind;
  Trace trace = twoOps();
  trace.blocks.push_back({70, true, false});
  trace.values.push_back({kNone, 3, kNone, kNone, true});
  trace.ops[0].inputs = {0, 3};
  trace.use_value[0] = 2;  // both uses are of v2
  trace.events.insert(trace.events.begin() + 6, {Kind::kFree, 3, 6});
  const Graph graph = buildGraph(trace).graph;
  EXPECT_FALSE(graph.ops[0].rerunnable);
  EXPECT_TRUE(graph.ops[1].rerunnable);
}

// A graph input of 70 B in block 3, which op 1 reads and which is freed after that.
Trace withGraphInput(std::ptrdiff_t allocated_at) {
  using Kind = TraceEvent::Kind;
  Trace trace = twoOps();
  trace.blocks.push_back({70, false, false});
  trace.values.push_back({kNone, 3, kNone, kNone, false});
  trace.ops[1].inputs = {1, 3};
  trace.events.insert(trace.events.begin() + 6, {Kind::kFree, 3, 5});
  trace.events.insert(trace.events.begin() + allocated_at, {Kind::kAlloc, 3, 2});
  return trace;
}

TEST(BuildGraph, AGraphInputOfMidStepTakesNothingBeforeItsBlockIsAllocated) {
  const auto step = buildGraph(withGraphInput(3));  // between the ops
  ASSERT_EQ(step.graph.ops.size(), 5u);
  EXPECT_EQ(step.graph.ops[1].outputs, std::vector<ValueId>{3});
  EXPECT_FALSE(step.graph.ops[1].rerunnable);
  EXPECT_EQ(step.trace_op_of, (std::vector<OpId>{0, kNone, 1, kNone, kNone}));
  EXPECT_EQ(step.graph.values[3].producer, 1);
  EXPECT_EQ(step.graph.values[3].last_reference, 2);
  // Op 0: 950 fixed, 50 x, 100 v1. Op 1: 70 and 100 v2 more. Backward without the graph input.
  const auto live = simulate(step.graph, keepEverything(step.graph)).live_bytes;
  EXPECT_EQ(live, (std::vector<Bytes>{1100, 1170, 1270, 1200, 1100}));
  EXPECT_EQ(step.activation_bytes, 200);
}

TEST(BuildGraph, AGraphInputThatAnOpAllocatesIsOfThatOpUntilItEnds) {
  const auto step = buildGraph(withGraphInput(2));
  ASSERT_EQ(step.graph.ops.size(), 5u);
  EXPECT_EQ(step.graph.ops[0].fixed_bytes, 950 + 70);
  EXPECT_EQ(step.graph.ops[1].fixed_bytes, 950);
  EXPECT_EQ(step.graph.values[3].producer, 1);
  Trace trace = withGraphInput(2);  // freed before that: it never is a value of the graph
  trace.ops[1].inputs = {1};
  trace.events.erase(trace.events.begin() + 7);
  trace.events.insert(trace.events.begin() + 3, {TraceEvent::Kind::kFree, 3, 2});
  const auto freed = buildGraph(trace);
  ASSERT_EQ(freed.graph.ops.size(), 4u);
  EXPECT_EQ(freed.graph.ops[0].fixed_bytes, 950 + 70);
  EXPECT_EQ(freed.graph.ops[1].fixed_at_start, 950);
  EXPECT_TRUE(freed.graph.values[3].pinned);
}

// The graph of op 0 is run backward between the ops, and kept: nothing is released after that.
TEST(BuildGraph, AGraphInputThatABackwardPassAllocatesIsOfThatUntilAnOpBegins) {
  using Kind = TraceEvent::Kind;
  Trace trace = withGraphInput(3);
  const TraceEvent node = {Kind::kBackwardNode, 0, 2};
  const TraceEvent unpack = {Kind::kUnpack, 0, 2};
  trace.events.insert(trace.events.begin() + 3, {node, unpack});
  const auto step = buildGraph(trace);
  ASSERT_EQ(step.graph.ops.size(), 6u);
  EXPECT_EQ(step.graph.ops[1].fixed_bytes, 950 + 70);
  EXPECT_EQ(step.graph.ops[2].outputs, std::vector<ValueId>{3});
  EXPECT_EQ(step.graph.ops[3].fixed_at_start, 950);
  EXPECT_NO_THROW(checkGraph(step.graph));
}

// The program fills x again between the ops, unseen: op 1 reads what is there then.
TEST(BuildGraph, AGraphInputThatIsWrittenOverTakesItsBytesOver) {
  Trace trace = twoOps();
  trace.values[0].overwritten_by = 1;
  trace.values.push_back({kNone, 0, kNone, kNone, false});
  trace.ops[1].inputs = {1, 3};
  const auto step = buildGraph(trace);
  ASSERT_EQ(step.graph.ops.size(), 5u);
  EXPECT_EQ(step.graph.ops[1].outputs, std::vector<ValueId>{3});
  EXPECT_EQ(step.graph.values[3].previous_epoch, 0);
  EXPECT_EQ(step.graph.values[0].overwritten_by, 1);
  // Never more than one of the two: 950 fixed, 50 x, 100 v1; then 100 v2.
  const auto live = simulate(step.graph, keepEverything(step.graph)).live_bytes;
  EXPECT_EQ(live, (std::vector<Bytes>{1100, 1100, 1200, 1200, 1100}));
  trace.ops[1].inputs = {0, 1, 3};  // x is read after all: both are there all along
  EXPECT_EQ(buildGraph(trace).graph.ops.size(), 4u);
}

// After the last release 50 B take the place of x, which is given back, and 30 B stay for good.
TEST(BuildGraph, TheNextBatchIsNotThereFromTheStart) {
  using Kind = TraceEvent::Kind;
  Trace trace = twoOps();
  trace.blocks.push_back({30, false, false});
  trace.blocks.push_back({50, false, false});
  trace.events.push_back({Kind::kAlloc, 3, 13});
  trace.events.push_back({Kind::kAlloc, 4, 14});
  trace.events.push_back({Kind::kFree, 0, 15});
  // 1000 at the start less x, a value, and the 30 B.
  EXPECT_EQ(buildGraph(trace, {.first_step = true}).graph.ops[0].fixed_bytes, 980);
  // The 30 B, the optimizer's state say, are no activations.
  EXPECT_EQ(buildGraph(trace, {.first_step = true}).activation_bytes,
            buildGraph(trace).activation_bytes);
  trace.events.pop_back();  // x stays: what is new stays beside it
  EXPECT_EQ(buildGraph(trace, {.first_step = true}).graph.ops[0].fixed_bytes, 1030);
}

TEST(TraceJson, SaysWhyAnOpIsNotRunAgain) {
  Trace trace = twoOps();
  trace.ops[0].rerunnable = trace.ops[1].rerunnable = false;
  trace.ops[0].kept_because = "a collective";
  const Trace again = traceFromJson(toJson(trace));
  EXPECT_FALSE(again.ops[0].rerunnable);
  EXPECT_EQ(again.ops[0].kept_because, "a collective");
  EXPECT_FALSE(again.ops[1].rerunnable);
  EXPECT_EQ(again.ops[1].kept_because, "");
}

TEST(TraceJson, NumbersAreNotNarrowed) {
  const std::string text = toJson(twoOps());
  const auto with = [&](const std::string& from, const std::string& to) {
    std::string changed = text;
    changed.replace(changed.find(from), from.size(), to);
    try {
      traceFromJson(changed);
    } catch (const std::invalid_argument& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  // 2^32 and 2^32 - 1 would become 0 and -1.
  EXPECT_EQ(with("[0],[1]]", "[4294967296],[1]]"), "trace: ops[0] 4294967296 is out of range");
  EXPECT_EQ(with("[[-1,0,-1,-1,false]", "[[4294967295,0,-1,-1,false]"),
            "trace: values[0] 4294967295 is out of range");
  EXPECT_EQ(with("\"use_value\":[1", "\"use_value\":[4294967297"),
            "trace: use_value[0]: 4294967297 is not a whole number of 32 bits");
  EXPECT_EQ(with("[\"begin\",0,", "[\"begin\",0.5,"), "trace: events[0] 0.5 is not a whole number");
  EXPECT_EQ(with("[50,", "[18446744073709551615,"),
            "trace: blocks[0] 18446744073709551615 is out of range");
}

}  // namespace
}  // namespace ebbtide::scheduler
