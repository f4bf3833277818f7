#include "base/min_cut.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <random>

#include "search/retention_cut.hpp"
#include "small_graphs.hpp"

namespace ebbtide::scheduler {
namespace {

TEST(MinCut, CutsTheNarrowEdge) {
  // 0 -5-> 1 -2-> 2 -5-> 3: the edge of 2 is the cut.
  MinCut cut(4);
  cut.addEdge(0, 1, 5);
  cut.addEdge(1, 2, 2);
  cut.addEdge(2, 3, 5);
  EXPECT_EQ(cut.sourceSide(0, 3), (std::vector<bool>{true, true, false, false}));
}

TEST(MinCut, IsAsSmallAsTheBestOfAllCuts) {
  constexpr std::size_t kNodes = 8;
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    std::mt19937_64 random(seed);
    std::int64_t capacity[kNodes][kNodes] = {};
    MinCut cut(kNodes);
    for (int edge = 0; edge < 20; ++edge) {
      const std::size_t from = random() % kNodes, to = random() % kNodes;
      if (from == to) continue;
      const std::int64_t size = static_cast<std::int64_t>(random() % 10);
      capacity[from][to] += size;
      cut.addEdge(from, to, size);
    }
    const auto weigh = [&](auto on_side) {
      std::int64_t sum = 0;
      for (std::size_t from = 0; from < kNodes; ++from) {
        for (std::size_t to = 0; to < kNodes; ++to) {
          if (on_side(from) && !on_side(to)) sum += capacity[from][to];
        }
      }
      return sum;
    };
    std::int64_t best = std::numeric_limits<std::int64_t>::max();
    for (std::uint32_t set = 0; set < 1u << kNodes; ++set) {  // node 0 in, the last node out
      if ((set & 1) == 0 || (set >> (kNodes - 1) & 1) != 0) continue;
      best = std::min(best, weigh([&](std::size_t node) { return (set >> node & 1) != 0; }));
    }
    const std::vector<bool> side = cut.sourceSide(0, kNodes - 1);
    EXPECT_TRUE(side[0] && !side[kNodes - 1]) << seed;
    EXPECT_EQ(weigh([&](std::size_t node) { return bool{side[node]}; }), best) << seed;
  }
}

TEST(RetentionAtPrice, DropsWhatIsCheaperToRunAgainThanToKeep) {
  // chain(3) of 10 bytes and 1 ns each, but value 2 takes 100 ns. At 1 ns a byte keeping one costs
  // 10 ns: values 1 and 3 are run again, value 2 is kept.
  Graph graph = chain(3);
  graph.ops[1].duration_ns = 100;
  const ScheduleBuilder builder(graph);
  const std::vector<bool> none(graph.values.size(), false);
  EXPECT_EQ(retentionAtPrice(graph, builder, 1.0, none).keep,
            (std::vector<bool>{false, false, true, false}));
  // At 100 ns a byte nothing is worth keeping, unless it is free.
  EXPECT_EQ(retentionAtPrice(graph, builder, 100.0, none).keep, none);
  EXPECT_EQ(retentionAtPrice(graph, builder, 100.0, {false, false, true, false}).keep,
            (std::vector<bool>{false, false, true, false}));
}

}  // namespace
}  // namespace ebbtide::scheduler
