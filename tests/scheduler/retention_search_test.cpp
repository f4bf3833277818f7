#include "search/retention_search.hpp"

#include <gtest/gtest.h>

#include "ebbtide/scheduler/simulator.hpp"
#include "model/planner_options.hpp"
#include "planners/greedy/greedy_planner.hpp"
#include "small_graphs.hpp"

namespace ebbtide::scheduler {
namespace {

// chain(35), between the lower bound and all. The greedy start is a local optimum, so the first
// cycle of the searches finds nothing and is the last: 50 + 4 x 35 rounds and 500 + 60 x 35 moves.
// A schedule has 70 first runs, some 35 replays and 70 drops or a few more, and counts the 70 ops
// on top: 2600 moves cost 0.65 million steps, and 190 rounds of ten or so candidates each 0.5. Of
// the 80 million that it may spend it takes less than a twentieth.
TEST(RetentionSearch, EndsWhenItHasConverged) {
  const Graph graph = chain(35);
  const Bytes budget =
      (peakLowerBound(graph) + simulate(graph, keepEverything(graph)).peak_bytes) / 2;
  RetentionSearch search(graph, budget, {});
  const ScoredRetention start = GreedyPlanner::construct(search);
  const std::int64_t before = search.workDone();
  const ScoredRetention found = search.improve(start, kDefaultSearchWork);
  EXPECT_TRUE(search.feasible(found));
  EXPECT_EQ(found.recompute_ns, start.recompute_ns);
  EXPECT_LT(search.workDone() - before, kDefaultSearchWork / 20);
}

}  // namespace
}  // namespace ebbtide::scheduler
