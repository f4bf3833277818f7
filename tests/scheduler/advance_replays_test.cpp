#include "ebbtide/scheduler/advance_replays.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>

#include "ebbtide/scheduler/planner.hpp"
#include "ebbtide/scheduler/simulator.hpp"
#include "ebbtide/scheduler/validator.hpp"
#include "random_graphs.hpp"
#include "small_graphs.hpp"

namespace ebbtide::scheduler {
namespace {

constexpr Bytes kEnough = 1 << 20;

AdvancedReplays advanced(const Graph& graph, std::vector<Step> steps, Bytes cap = kEnough) {
  const Schedule schedule{std::move(steps)};
  EXPECT_EQ(validate(graph, schedule).value_or(""), "");
  AdvancedReplays result = advanceReplays(graph, schedule, cap);
  EXPECT_EQ(validate(graph, result.schedule).value_or(""), "");
  return result;
}

// x -> v1 -> v2 -> v3, each of 10 bytes and 1 ns; then the program waits (op 3), and events 4, 5
// and 6 read v3, v2 and v1. Value i is made by op i - 1.
Graph waitingChain() {
  Graph graph = chain(3);
  graph.ops.resize(3);
  addWait(graph);
  for (ValueId value : {3, 2, 1}) addEvent(graph, {value});
  return graph;
}

// Nothing is kept but v1; each event's value is made when it is read.
std::vector<Step> nothingKept() {
  return {run(0),  run(1), run(2),  drop(3), drop(2), run(3),  run(1), run(2),
          drop(2), run(4), drop(3), run(1),  run(5),  drop(2), run(6), drop(1)};
}

TEST(AdvanceReplays, MovesReplaysAndTheirDropsToBeforeTheWait) {
  // Those of event 4 go ahead, and with them the drop of v2; so the one for event 5 may follow.
  const AdvancedReplays result = advanced(waitingChain(), nothingKept());
  EXPECT_EQ(result.schedule.steps,
            (std::vector<Step>{run(0), run(1), run(2), drop(3), drop(2), run(1), run(2), drop(2),
                               run(1), run(3), run(4), drop(3), run(5), drop(2), run(6), drop(1)}));
  EXPECT_EQ(result.moved, 3);
  EXPECT_EQ(result.moved_ns, 3);
}

TEST(AdvanceReplays, StopsAtTheCap) {
  // While it waits: v1 and v3, 20 bytes. On the way there v1, v2 and v3: 30, as before the move.
  const Graph graph = waitingChain();
  const AdvancedReplays result = advanced(graph, nothingKept(), 30);
  // v1, v2, v3 at the wait are 30 too, so that the third replay fits: not while event 4 runs with a
  // workspace of 1.
  EXPECT_EQ(result.moved, 3);
  Graph larger = graph;
  larger.ops[4].fixed_bytes = 1;
  larger.ops[4].fixed_at_start = 0;
  const AdvancedReplays two = advanced(larger, nothingKept(), 30);
  EXPECT_EQ(two.schedule.steps,
            (std::vector<Step>{run(0), run(1), run(2), drop(3), drop(2), run(1), run(2), drop(2),
                               run(3), run(4), drop(3), run(1), run(5), drop(2), run(6), drop(1)}));
  EXPECT_EQ(two.moved, 2);
  // With less, v3 is made where it was: there the schedule is over the cap already.
  EXPECT_EQ(advanced(graph, nothingKept(), 29).moved, 1);
  EXPECT_EQ(advanced(graph, nothingKept(), 19).moved, 0);
}

TEST(AdvanceReplays, FitsTheWaitsOwnBytes) {
  Graph graph = waitingChain();
  graph.ops[3].fixed_bytes = 15;  // v1 is live: 25, and 35 with v2
  EXPECT_EQ(advanced(graph, nothingKept(), 34).moved, 0);
  EXPECT_EQ(advanced(graph, nothingKept(), 44).moved, 1);
  EXPECT_EQ(advanced(graph, nothingKept(), 45).moved, 3);  // 30 + 15 in the replay of v3
  graph.ops[3].fixed_at_start = 0;
  EXPECT_EQ(advanced(graph, nothingKept(), 44).moved, 2);  // 20 + 15 while it waits, not 30 + 15
  EXPECT_EQ(advanced(graph, nothingKept(), 34).moved, 0);  // nor 20 + 15, as with v2 alone
}

TEST(AdvanceReplays, MovesNothingPastWhatItNeeds) {
  // Ops 0 and 1 forward, 2 waits, 3 forward, then the events of ops 3, 1 and 0.
  Graph graph = chain(2);
  graph.ops.resize(2);
  addWait(graph);
  const ValueId third = addForward(graph, {2}, 10, 1);
  addEvent(graph, {third});
  addEvent(graph, {2});
  addEvent(graph, {1});
  // What op 3 makes is there after the wait alone. v1 is dropped after it: it can be made again
  // only then. v2 is made of it.
  const std::vector<Step> steps = {run(0),  run(1),  run(2), run(3), drop(2), drop(third),
                                   drop(1), run(0),  run(1), run(3), run(4),  drop(third),
                                   run(5),  drop(2), run(6), drop(1)};
  EXPECT_EQ(advanced(graph, steps).schedule.steps, steps);
}

TEST(AdvanceReplays, TakesTheLatestWait) {
  Graph graph = chain(1);
  graph.ops.resize(1);
  addWait(graph);        // 1
  addWait(graph);        // 2
  addEvent(graph, {1});  // 3
  const AdvancedReplays result = advanced(graph, {run(0), drop(1), run(1), run(2), run(0), run(3)});
  EXPECT_EQ(result.schedule.steps,
            (std::vector<Step>{run(0), drop(1), run(1), run(0), run(2), run(3)}));
  // And what is there already stays.
  EXPECT_EQ(advanced(graph, result.schedule.steps).schedule.steps, result.schedule.steps);
  EXPECT_EQ(advanced(graph, result.schedule.steps).moved, 0);
}

TEST(AdvanceReplays, LeavesScheduleWithoutWaitsAlone) {
  const Graph graph = chain(2);
  const std::vector<Step> steps = {run(0), drop(1), run(1), run(2), run(0), run(3)};
  EXPECT_EQ(advanced(graph, steps).schedule.steps, steps);
}

// x -> a -> (in place) b, 10 bytes each; the program waits; an event reads b.
TEST(AdvanceReplays, KeepsWhatAReplayWritesOverBesideIt) {
  Graph graph;
  const ValueId x = addGraphInput(graph, 0, true);
  const ValueId a = addForward(graph, {x}, 10, 1);
  const ValueId b = addInPlace(graph, a, 1);
  addWait(graph);
  addEvent(graph, {b});
  const std::vector<Step> steps = {run(0), run(1),  drop(b), run(2), run(0),
                                   run(1), drop(a), run(3),  drop(b)};
  const AdvancedReplays result = advanced(graph, steps, 20);
  EXPECT_EQ(result.schedule.steps, (std::vector<Step>{run(0), run(1), drop(b), run(0), run(1),
                                                      drop(a), run(2), run(3), drop(b)}));
  EXPECT_EQ(simulate(graph, result.schedule).peak_bytes, 10);
}

// 1,000 microbatches of 25 ops, each kept as nothing but its first value. Every replay finds its
// wait.
TEST(AdvanceReplays, GoesThroughManyMicrobatches) {
  Graph graph;
  Schedule schedule;
  const auto step = [&](Step one) { schedule.steps.push_back(one); };
  for (int microbatch = 0; microbatch < 1000; ++microbatch) {
    std::vector<ValueId> values = {addGraphInput(graph, 1)};
    const OpId begin = static_cast<OpId>(graph.ops.size());
    for (int i = 0; i < 25; ++i) {
      values.push_back(addForward(graph, {values.back()}, 10, 1));
      step(run(begin + i));
    }
    for (int i = 1; i <= 25; ++i) step(drop(values[i]));
    step(run(addWait(graph)));
    for (int i = 0; i < 25; ++i) step(run(begin + i));
    for (int i = 25; i > 0; --i) {
      step(run(addEvent(graph, {values[i]})));
      step(drop(values[i]));
    }
    step(drop(values[0]));
  }
  ASSERT_EQ(validate(graph, schedule).value_or(""), "");
  EXPECT_EQ(advanceReplays(graph, schedule, kEnough).moved, 25'000);
}

std::map<OpId, int> runsOf(const Schedule& schedule) {
  std::map<OpId, int> runs;
  for (const Step& step : schedule.steps) {
    if (step.kind == Step::Kind::kRun) ++runs[step.id];
  }
  return runs;
}

// Where the k-th run of each op comes: after how many first runs.
std::map<std::pair<OpId, int>, OpId> places(const Graph& graph, const Schedule& schedule) {
  std::map<std::pair<OpId, int>, OpId> places;
  std::map<OpId, int> runs;
  OpId next = 0;
  for (const Step& step : schedule.steps) {
    if (step.kind != Step::Kind::kRun) continue;
    places[{step.id, runs[step.id]++}] = next;
    if (runs[step.id] == 1) ++next;
  }
  EXPECT_EQ(next, static_cast<OpId>(graph.ops.size()));
  return places;
}

// As a program runs it that passes over its waits: what is to come before them, and what is dropped
// while it waits, comes before the next event. What is gone by then, being written over, is dropped
// no more.
Schedule passedOver(const Graph& graph, const Schedule& schedule) {
  Schedule late;
  std::vector<Step> ahead, between;
  OpId next = 0, wait = kNone;
  bool waits = false;  // the last first run did
  const auto flush = [&late](std::vector<Step>& steps) {
    late.steps.insert(late.steps.end(), steps.begin(), steps.end());
    steps.clear();
  };
  for (const Step& step : schedule.steps) {
    if (step.kind != Step::Kind::kRun || step.id != next) {
      (waits && !ahead.empty() && between.empty() && step.kind == Step::Kind::kDrop ? ahead
                                                                                    : between)
          .push_back(step);
      continue;
    }
    ++next;
    const Op& op = graph.ops[step.id];
    waits = op.waits;
    if (waits) {
      wait = step.id;
      const auto first = std::find_if(between.begin(), between.end(),
                                      [](const Step& s) { return s.kind != Step::Kind::kDrop; });
      ahead.insert(ahead.end(), first, between.end());
      between.erase(first, between.end());
    } else if (graph.mayReplayBefore(step.id)) {
      std::erase_if(ahead, [&](const Step& s) {
        const OpId writer = s.kind == Step::Kind::kDrop ? graph.values[s.id].overwritten_by : kNone;
        return writer > wait && writer < step.id;
      });
      flush(ahead);
    }
    flush(between);
    late.steps.push_back(step);
  }
  flush(between);
  return late;
}

void expectOnlyAhead(const Graph& graph, const Schedule& before, const AdvancedReplays& after,
                     Bytes cap) {
  ASSERT_EQ(validate(graph, after.schedule).value_or(""), "");
  const Schedule late = passedOver(graph, after.schedule);
  EXPECT_EQ(late.steps.size(), after.schedule.steps.size());
  EXPECT_EQ(validate(graph, late).value_or(""), "");
  EXPECT_EQ(after.schedule.steps.size(), before.steps.size());
  EXPECT_EQ(runsOf(after.schedule), runsOf(before));
  const Simulation old = simulate(graph, before), now = simulate(graph, after.schedule);
  EXPECT_EQ(now.recompute_ns, old.recompute_ns);
  EXPECT_EQ(now.recomputed_ops, old.recomputed_ops);
  EXPECT_LE(now.peak_bytes, std::max(cap, old.peak_bytes));
  std::int64_t moved = 0;
  const auto from = places(graph, before);
  for (const auto& [run, place] : places(graph, after.schedule)) {
    const OpId was = from.at(run);
    if (place == was) continue;
    ++moved;
    EXPECT_LT(place, was);
    EXPECT_TRUE(graph.ops[place].waits);
    for (OpId op = place + 1; op <= was; ++op) EXPECT_FALSE(graph.ops[op].waits) << "a later wait";
  }
  EXPECT_EQ(moved, after.moved);
}

// On schedules of planners, within budgets from the least peak to keeping everything.
TEST(AdvanceReplays, ChangesNothingButPlaces) {
  std::int64_t moved = 0, replays = 0;
  for (std::uint64_t seed = 0; seed < 400; ++seed) {
    Graph graph = RandomGraph(seed, 2 + seed % 12, 1 + static_cast<int>(seed % 4)).take();
    if (seed % 3 == 0) graph = withCopies(std::move(graph), seed);
    graph = withWaits(graph, seed);
    const Bytes plain = simulate(graph, keepEverything(graph)).peak_bytes;
    const Bytes least = peakLowerBound(graph);
    for (const char* name : {"greedy", "dtr"}) {
      const Bytes budget = least + (plain - least) * static_cast<Bytes>(seed % 5) / 5;
      PlannerOptions options;
      if (std::string(name) == "greedy") options.named["work"] = "2000";
      const PlanResult plan = planner(name).plan(graph, budget, options);
      for (const Bytes cap : {budget, (budget + plain) / 2, plain, kEnough}) {
        SCOPED_TRACE(testing::Message() << name << ", seed " << seed << ", cap " << cap);
        const AdvancedReplays result = advanceReplays(graph, plan.schedule, cap);
        expectOnlyAhead(graph, plan.schedule, result, cap);
        moved += result.moved;
        replays += simulate(graph, plan.schedule).recomputed_ops;
        if (HasFailure()) return;
      }
    }
  }
  EXPECT_GT(moved, replays / 20);
}

// Does a copy of what the op reads or makes end, or begin, among these steps?
bool endsBetween(const Graph& graph, const Schedule& schedule, OpId op, std::size_t from,
                 std::size_t to) {
  std::set<ValueId> values(graph.ops[op].inputs.begin(), graph.ops[op].inputs.end());
  values.insert(graph.ops[op].outputs.begin(), graph.ops[op].outputs.end());
  for (std::size_t i = from; i < to; ++i) {
    const Step& step = schedule.steps[i];
    if (step.kind == Step::Kind::kDrop && values.count(step.id) > 0) return true;
    if (step.kind != Step::Kind::kRun) continue;
    for (ValueId made : graph.ops[step.id].outputs) {
      if (values.count(made) > 0) return true;
    }
  }
  return false;
}

// Wherever the values are free of in-place writes, single outputs and held by the program to their
// last reader, the bytes are counted exactly: the first replay that stays, with the drops that
// follow it, could not have come along.
TEST(AdvanceReplays, LeavesNoFirstReplayBehindThatFits) {
  int tried = 0;
  for (std::uint64_t seed = 0; seed < 300; ++seed) {
    const Graph graph = withWaits(tinyStep(seed, 5), seed, 25);
    const Bytes plain = simulate(graph, keepEverything(graph)).peak_bytes;
    const PlanResult plan = planner("greedy").plan(graph, peakLowerBound(graph), {});
    for (Bytes cap = plan.peak_bytes; cap <= plain + 10; cap += 3) {
      const Schedule result = advanceReplays(graph, plan.schedule, cap).schedule;
      std::size_t wait = result.steps.size();
      std::vector<bool> ran(graph.ops.size(), false);
      for (std::size_t i = 0; i < result.steps.size(); ++i) {
        const Step step = result.steps[i];
        if (step.kind != Step::Kind::kRun) continue;
        if (!ran[step.id]) {
          ran[step.id] = true;
          if (graph.ops[step.id].waits) wait = i;
          continue;
        }
        const auto next = std::find(ran.begin(), ran.end(), false) - ran.begin();
        if (wait == result.steps.size() || graph.ops[static_cast<std::size_t>(next)].waits)
          continue;
        // Alone, ahead of the wait, before which the others of this stretch have come.
        Schedule more = result;
        const auto begin = more.steps.begin();
        std::rotate(begin + static_cast<std::ptrdiff_t>(wait),
                    begin + static_cast<std::ptrdiff_t>(i),
                    begin + static_cast<std::ptrdiff_t>(i) + 1);
        const bool fits = !validate(graph, more) && simulate(graph, more).peak_bytes <= cap;
        EXPECT_FALSE(fits && !endsBetween(graph, result, step.id, wait, i))
            << "seed " << seed << ", cap " << cap << ", step " << i;
        ++tried;
        wait = result.steps.size();  // the first one of the stretch
      }
    }
  }
  EXPECT_GT(tried, 500);
}

}  // namespace
}  // namespace ebbtide::scheduler
