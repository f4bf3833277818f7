#include "ebbtide/scheduler/memory_areas.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <numeric>

#include "ebbtide/scheduler/planner.hpp"
#include "ebbtide/scheduler/simulator.hpp"
#include "ebbtide/scheduler/validator.hpp"
#include "ebbtide/scheduler/value_copies.hpp"
#include "random_graphs.hpp"
#include "small_traces.hpp"

namespace ebbtide::scheduler {
namespace {

using Action = MemoryArea::Action;
using StepKind = Step::Kind;

// What simulate() has as live, at each moment that it looks.
class Looks : public SimulationWatcher {
 public:
  void onLive(ValueId, Bytes) override {}
  void onLook(Nanoseconds at_ns, Bytes live_bytes) override {
    seen.emplace_back(at_ns, live_bytes);
  }
  std::vector<std::pair<Nanoseconds, Bytes>> seen;
};

TraceGraph recorded(Graph graph) {
  TraceGraph step;
  step.graph = std::move(graph);
  step.restores.resize(step.graph.ops.size());
  return step;
}

std::vector<Bytes> sums(const MemoryAreas& areas) {
  std::vector<Bytes> total(areas.at_ns.size(), 0);
  for (const MemoryArea& area : areas.areas) {
    for (std::size_t i = 0; i < total.size(); ++i) total[i] += area.live_bytes.at(i);
  }
  return total;
}

const MemoryArea* find(const MemoryAreas& areas, const std::string& label, Action action) {
  for (const MemoryArea& area : areas.areas) {
    if (area.label == label && area.action == action) return &area;
  }
  return nullptr;
}

// Of any schedule of any step the areas add up to what the simulator says, moment by moment.
TEST(MemoryAreas, AddUpToTheSimulatorsLiveBytes) {
  PlannerOptions options;
  options.named["work"] = "5000";
  for (std::uint64_t seed = 0; seed < 40; ++seed) {
    const Graph graph = withWaits(withCopies(randomGraph(seed, 12), seed), seed);
    const TraceGraph step = recorded(graph);
    const Bytes least = peakLowerBound(graph);
    for (const Bytes budget : {Bytes{0}, least + least / 4, Bytes{1} << 50}) {
      const Schedule schedule = planner("auto").plan(graph, budget, options).schedule;
      Looks looks;
      const Simulation simulation = simulate(graph, schedule, &looks);
      const MemoryAreas areas = memoryAreas(step, schedule, {.points = 1 << 20, .labels = 3});
      const std::vector<Bytes> total = sums(areas);
      ASSERT_EQ(total.size(), looks.seen.size());
      for (std::size_t i = 0; i < total.size(); ++i) {
        ASSERT_EQ(total[i], looks.seen[i].second) << "seed " << seed << ", moment " << i;
        ASSERT_EQ(areas.at_ns[i], looks.seen[i].first);
      }
      // Thinned to 5 points, the peak is among them.
      const std::vector<Bytes> few = sums(memoryAreas(step, schedule, {.points = 5}));
      ASSERT_LE(few.size(), 5u);
      ASSERT_EQ(*std::max_element(few.begin(), few.end()), simulation.peak_bytes);
    }
  }
}

// twoOps(): v1 and v2, 100 B each, of op 0 and op 1. v1 is dropped after op 1, and made again.
TEST(MemoryAreas, SayWhatTheScheduleDoesWithAValue) {
  const TraceGraph step = buildGraph(twoOps());
  const Schedule schedule{{{StepKind::kRun, 0},
                           {StepKind::kRun, 1},
                           {StepKind::kDrop, 1},
                           {StepKind::kRun, 2},
                           {StepKind::kDrop, 2},
                           {StepKind::kRun, 0},
                           {StepKind::kRun, 3},
                           {StepKind::kDrop, 1}}};
  const MemoryAreas areas = memoryAreas(step, schedule);
  const MemoryArea* first = find(areas, step.graph.ops[0].name, Action::kRecomputed);
  const MemoryArea* second = find(areas, step.graph.ops[1].name, Action::kKept);
  ASSERT_NE(first, nullptr);
  ASSERT_NE(second, nullptr);
  // Moments: op 0, op 1, the event that reads v2, op 0 again, the event that reads v1.
  EXPECT_EQ(first->live_bytes, (std::vector<Bytes>{100, 100, 0, 100, 100}));
  EXPECT_EQ(second->live_bytes, (std::vector<Bytes>{0, 100, 100, 0, 0}));
}

// The same with v2 as bits: op 2 decodes it, once where it is made and, after a drop, again.
TEST(MemoryAreas, TellCopiesByTheOpThatMadeTheValue) {
  Trace trace = twoOps();
  trace.ops[1].rerunnable = false;
  trace.values[2].encoded_bytes = 4;
  trace.values[2].codec_ns = 3;
  TraceGraph step = buildGraph(trace);
  const std::string maker = step.graph.ops[1].name;
  addValueCopies(trace, step);
  const Schedule schedule{{{StepKind::kRun, 0},
                           {StepKind::kRun, 1},
                           {StepKind::kRun, 2},
                           {StepKind::kDrop, 2},
                           {StepKind::kRun, 2},
                           {StepKind::kDrop, 4},
                           {StepKind::kRun, 3},
                           {StepKind::kDrop, 2},
                           {StepKind::kRun, 4},
                           {StepKind::kDrop, 1}}};
  ASSERT_EQ(validate(step.graph, schedule).value_or(""), "");
  const MemoryAreas areas = memoryAreas(step, schedule);
  const MemoryArea* bits = find(areas, maker, Action::kEncoded);
  ASSERT_NE(bits, nullptr);
  EXPECT_EQ(find(areas, "decode " + maker, Action::kEncoded), nullptr);
  // 4 B of bits, and while they are decoded the 100 B of v2 beside them.
  EXPECT_EQ(*std::max_element(bits->live_bytes.begin(), bits->live_bytes.end()), 104);
}

// 20 ops of as many names, of 1 to 20 B; three keep their names, those of the largest: 20, 19, 18.
TEST(MemoryAreas, FoldsSmallLabelsIntoOne) {
  Graph graph;
  for (int i = 0; i < 20; ++i) {
    graph.values.push_back({.bytes = i + 1, .producer = i});
    graph.ops.push_back({.name = "op" + std::to_string(i), .outputs = {i}});
  }
  Op reads{.name = "event", .backward = true};
  for (int i = 0; i < 20; ++i) reads.inputs.push_back(i);
  graph.ops.push_back(reads);
  checkGraph(graph);
  const MemoryAreas areas =
      memoryAreas(recorded(graph), keepEverything(graph), {.points = 500, .labels = 3});
  std::map<std::string, Bytes> at_end;
  for (const MemoryArea& area : areas.areas) at_end[area.label] += area.live_bytes.back();
  // 1 + 2 + … + 17 = 153
  EXPECT_EQ(at_end, (std::map<std::string, Bytes>{
                        {"base", 0}, {"op17", 18}, {"op18", 19}, {"op19", 20}, {"other", 153}}));
}

}  // namespace
}  // namespace ebbtide::scheduler
