#include <gtest/gtest.h>

#include <algorithm>

#include "ebbtide/scheduler/simulator.hpp"
#include "gpt_graph.hpp"
#include "random_graphs.hpp"
#include "schedule_brute_force.hpp"
#include "small_graphs.hpp"

namespace ebbtide::scheduler {
namespace {

TEST(RecomputeBound, IsNeverAboveTheOptimum) {
  for (std::uint64_t seed = 0; seed < 60; ++seed) {
    const Graph graph = tinyStep(seed, 2 + static_cast<int>(seed % 5));
    const Bytes peak = simulate(graph, keepEverything(graph)).peak_bytes;
    for (Bytes budget = peakLowerBound(graph); budget <= peak; budget += 3) {
      const auto least = ScheduleBruteForce(graph, budget).leastReplayTime();
      if (!least) continue;
      EXPECT_LE(recomputeLowerBound(graph, budget), *least) << seed << " budget " << budget;
    }
  }
}

TEST(RecomputeBound, IsNeverAboveTheOptimumOfTwoMicrobatches) {
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    const Graph graph =
        inTurn(tinyStep(seed, 2 + static_cast<int>(seed % 2)), tinyStep(seed + 1, 3));
    const Bytes peak = simulate(graph, keepEverything(graph)).peak_bytes;
    for (Bytes budget = peakLowerBound(graph); budget <= peak; budget += 3) {
      const auto least = ScheduleBruteForce(graph, budget).leastReplayTime();
      if (!least) continue;
      EXPECT_LE(recomputeLowerBound(graph, budget), *least) << seed << " budget " << budget;
    }
  }
}

// chain(4) takes 40 bytes; in 30 one of its values is made again, in 1 ns. In each of two.
TEST(RecomputeBound, AddsUpOverMicrobatches) {
  EXPECT_EQ(recomputeLowerBound(chain(4), 30), 1);
  EXPECT_EQ(recomputeLowerBound(inTurn(chain(4), chain(4)), 30), 2);
  // In 20 bytes two are made again; the second microbatch has nothing to make room for.
  EXPECT_EQ(recomputeLowerBound(inTurn(chain(4), chain(2)), 20), 2);
  // Value 1 is read after both alone. It makes room in each and is made again once; the second
  // microbatch, which holds 40 bytes beside it, takes one more.
  Graph graph = inTurn(chain(4), chain(4));
  graph.ops[7].inputs.clear();
  graph.ops[15].inputs.push_back(1);
  EXPECT_EQ(recomputeLowerBound(graph, 30), 2);
}

// Beyond the ops that get a knapsack of their own too.
TEST(RecomputeBound, RisesAsTheBudgetFalls) {
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    const Graph graph = randomGraph(seed, 20 + 15 * (seed % 10));
    const Bytes peak = simulate(graph, keepEverything(graph)).peak_bytes;
    EXPECT_EQ(recomputeLowerBound(graph, peak), 0);
    Nanoseconds before = 0;
    for (Bytes budget = peak; budget >= 0; budget -= peak / 40 + 1) {
      const Nanoseconds bound = recomputeLowerBound(graph, budget);
      EXPECT_GE(bound, before) << seed << " budget " << budget;
      before = bound;
    }
  }
}

// At 60 % of the peak a transformer of 12 layers drops what takes least time per byte. Counted by
// hand over the last forward op: all values that its events read are live there.
TEST(RecomputeBound, TakesTheCheapestValuesOfATransformer) {
  const Graph graph = gptGraph({.layers = 12});
  const Bytes peak = simulate(graph, keepEverything(graph)).peak_bytes;
  const Bytes fixed = graph.ops[0].fixed_bytes;
  const Bytes budget = fixed + (peak - fixed) * 6 / 10;
  struct Room {
    Nanoseconds time = 0;
    Bytes bytes = 0;
  };
  std::vector<Room> rooms(graph.ops.size());
  OpId last = 0;
  while (!graph.ops[last + 1].backward) ++last;
  Bytes live = graph.ops[last].fixed_bytes;
  std::vector<bool> read(graph.values.size(), false);
  for (const Op& op : graph.ops) {
    for (ValueId value : op.inputs) read[value] = read[value] || op.backward;
  }
  for (std::size_t id = 0; id < graph.values.size(); ++id) {
    const Value& value = graph.values[id];
    if (value.pinned || value.overwritten_by != kNone) continue;
    const bool held = value.producer == last || value.last_reference >= last;
    if (!read[id] && !held) continue;
    live += value.bytes;
    if (held || value.producer == kNone) continue;
    rooms[value.producer].bytes += value.bytes;
    rooms[value.producer].time = graph.ops[value.producer].duration_ns;
  }
  std::erase_if(rooms, [](const Room& room) { return room.bytes == 0; });
  std::sort(rooms.begin(), rooms.end(), [](const Room& a, const Room& b) {
    return static_cast<double>(a.time) / static_cast<double>(a.bytes) <
           static_cast<double>(b.time) / static_cast<double>(b.bytes);
  });
  double time = 0;
  Bytes excess = live - budget;
  for (const Room& room : rooms) {
    const double share =
        std::min(1.0, static_cast<double>(excess) / static_cast<double>(room.bytes));
    if (share <= 0) break;
    time += share * static_cast<double>(room.time);
    excess -= room.bytes;
  }
  EXPECT_GE(recomputeLowerBound(graph, budget), static_cast<Nanoseconds>(time) - 1);
}

}  // namespace
}  // namespace ebbtide::scheduler
