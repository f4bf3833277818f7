#include "planners/lower_sets/kusumoto_planner.hpp"

#include <gtest/gtest.h>

#include <limits>
#include <stdexcept>

#include "ebbtide/scheduler/simulator.hpp"
#include "ebbtide/scheduler/validator.hpp"
#include "planners/lower_sets/canonical_model.hpp"
#include "random_graphs.hpp"
#include "random_problems.hpp"

namespace ebbtide::scheduler {
namespace {

PlannerOptions chosen(const std::string& strategy, const std::string& liveness) {
  PlannerOptions options;
  options.named = {{"strategy", strategy}, {"liveness", liveness}};
  return options;
}

// Calls visit(schedule) for every canonical strategy of at most 9 nodes: each node goes into a
// segment not before its predecessors' ones.
class AllStrategies {
 public:
  explicit AllStrategies(const LowerSetProblem& problem)
      : problem_(problem), previous_(previousNodes(problem)), graph_(canonicalGraph(problem)) {
    plan_.feasible = true;
    plan_.segment.assign(problem.time.size(), 0);
  }

  template <typename Visit>
  void forEach(DropTime drops, Visit visit, std::size_t node = 0) {
    const std::size_t nodes = problem_.time.size();
    if (node < nodes) {
      std::int32_t first = 0;
      for (std::int32_t u : previous_[node]) first = std::max(first, plan_.segment[u]);
      for (std::int32_t at = first; at < static_cast<std::int32_t>(nodes); ++at) {
        plan_.segment[node] = at;
        forEach(drops, visit, node + 1);
      }
      return;
    }
    plan_.segments = *std::max_element(plan_.segment.begin(), plan_.segment.end()) + 1;
    std::vector<bool> used(nodes, false);
    for (std::int32_t at : plan_.segment) used[at] = true;
    if (std::find(used.begin(), used.begin() + plan_.segments, false) !=
        used.begin() + plan_.segments) {
      return;
    }
    plan_.cached.assign(nodes, false);
    for (std::size_t v = 0; v < nodes; ++v) {
      for (std::int32_t w : problem_.next[v]) {
        if (plan_.segment[w] > plan_.segment[v]) plan_.cached[v] = true;
      }
    }
    visit(simulate(graph_, canonicalSchedule(graph_, plan_, drops)));
  }

  const Graph& graph() const { return graph_; }

 private:
  const LowerSetProblem& problem_;
  std::vector<std::vector<std::int32_t>> previous_;
  Graph graph_;
  LowerSetPlan plan_;
};

TEST(KusumotoExact, IsOptimalAmongCanonicalStrategies) {
  for (std::uint64_t seed = 0; seed < 60; ++seed) {
    // Up to 9 nodes; the larger ones with more edges, so that the strategies stay few.
    const std::size_t nodes = 2 + seed % 8;
    const LowerSetProblem problem = randomProblem(seed, nodes, nodes < 6 ? 2 : nodes - 2);
    AllStrategies all(problem);
    std::vector<Simulation> strategies;
    all.forEach(DropTime::kSegmentEnd,
                [&](const Simulation& simulation) { strategies.push_back(simulation); });
    Bytes smallest = std::numeric_limits<Bytes>::max();
    for (const Simulation& one : strategies) smallest = std::min(smallest, one.peak_bytes);
    for (const Bytes budget : {smallest - 1, smallest, smallest + 3, smallest * 5 / 4}) {
      Nanoseconds least = std::numeric_limits<Nanoseconds>::max();
      for (const Simulation& one : strategies) {
        if (one.peak_bytes <= budget) least = std::min(least, one.recompute_ns);
      }
      const PlanResult result =
          planner("kusumoto-exact").plan(all.graph(), budget, chosen("time", "off"));
      ASSERT_EQ(validate(all.graph(), result.schedule).value_or(""), "") << seed;
      EXPECT_EQ(result.feasible, budget >= smallest) << seed;
      if (budget < smallest) {
        EXPECT_EQ(result.peak_bytes, smallest) << seed;
      } else {
        EXPECT_EQ(result.recompute_ns, least) << seed << " " << budget;
      }
    }
  }
}

TEST(KusumotoExact, IsNoWorseThanTheApproximateProgram) {
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    const Graph graph = seed % 2 == 0 ? canonicalGraph(randomProblem(seed, 5 + seed % 10, 4))
                                      : randomGraph(seed, 15);
    const Bytes peak = simulate(graph, keepEverything(graph)).peak_bytes;
    const Bytes bound = peakLowerBound(graph);
    for (const char* liveness : {"on", "off"}) {
      for (const Bytes budget : {Bytes{0}, bound, (bound + peak) / 2, (bound + 3 * peak) / 4}) {
        const PlannerOptions options = chosen("time", liveness);
        const PlanResult exact = planner("kusumoto-exact").plan(graph, budget, options);
        const PlanResult approx = planner("kusumoto-approx").plan(graph, budget, options);
        EXPECT_EQ(exact.planner, exact.note.empty() ? "kusumoto-exact" : "kusumoto-approx");
        SCOPED_TRACE(testing::Message() << seed << " " << liveness << " " << budget);
        EXPECT_GE(exact.feasible, approx.feasible);
        if (approx.feasible) {
          EXPECT_LE(exact.recompute_ns, approx.recompute_ns);
        } else if (!exact.feasible) {
          EXPECT_LE(exact.peak_bytes, approx.peak_bytes);
        }
      }
    }
  }
}

// Nodes without edges: each set of nodes is a lower set, 2^20 sets.
TEST(KusumotoExact, NamesTheApproximateProgramWhereLowerSetsAreTooMany) {
  LowerSetProblem problem;
  problem.time.assign(20, 1);
  problem.memory.assign(20, 1);
  problem.next.resize(20);
  const Graph graph = canonicalGraph(problem);
  for (const char* liveness : {"on", "off"}) {
    const PlanResult result = planner("kusumoto-exact").plan(graph, 0, chosen("time", liveness));
    EXPECT_EQ(result.planner, "kusumoto-approx");
    EXPECT_NE(result.note.find("more than the 6000 lower sets"), std::string::npos) << result.note;
  }
  EXPECT_EQ(planner("kusumoto-approx").plan(graph, 0, {}).note, "");
}

TEST(Kusumoto, LivenessAnalysisNeverTakesMore) {
  for (std::uint64_t seed = 0; seed < 30; ++seed) {
    const Graph graph = canonicalGraph(randomProblem(seed, 25));
    for (const char* strategy : {"time", "memory"}) {
      const PlanResult on = planner("kusumoto-approx").plan(graph, 0, chosen(strategy, "on"));
      const PlanResult off = planner("kusumoto-approx").plan(graph, 0, chosen(strategy, "off"));
      ASSERT_EQ(validate(graph, on.schedule).value_or(""), "") << seed;
      ASSERT_EQ(validate(graph, off.schedule).value_or(""), "") << seed;
      EXPECT_LE(on.peak_bytes, off.peak_bytes) << seed;
    }
  }
}

// More budget, never more time: without liveness analysis the program is exact on its family.
TEST(Kusumoto, MoreMemoryNeverCostsMore) {
  for (std::uint64_t seed = 0; seed < 10; ++seed) {
    const Graph graph = canonicalGraph(randomProblem(seed, 30));
    const PlannerOptions options = chosen("time", "off");
    const Bytes smallest = planner("kusumoto-approx").plan(graph, 0, options).peak_bytes;
    Nanoseconds before = std::numeric_limits<Nanoseconds>::max();
    for (Bytes budget = smallest; budget < 2 * smallest; budget += smallest / 10 + 1) {
      const PlanResult result = planner("kusumoto-approx").plan(graph, budget, options);
      EXPECT_TRUE(result.feasible) << seed << " " << budget;
      EXPECT_LE(result.recompute_ns, before) << seed << " " << budget;
      before = result.recompute_ns;
    }
  }
}

TEST(Kusumoto, RejectsOtherOptionValues) {
  const Graph graph = canonicalGraph(randomProblem(0, 5));
  EXPECT_THROW(planner("kusumoto-exact").plan(graph, 0, chosen("fast", "on")),
               std::invalid_argument);
  EXPECT_THROW(planner("kusumoto-exact").plan(graph, 0, chosen("time", "maybe")),
               std::invalid_argument);
}

TEST(Kusumoto, HeedsADeadlineOnThePapersModel) {
  const Graph graph = canonicalGraph(randomProblem(3, 50));
  for (const char* name : {"kusumoto-exact", "kusumoto-approx"}) {
    for (const char* liveness : {"on", "off"}) {
      PlannerOptions options = chosen("time", liveness);
      options.deadline = std::chrono::steady_clock::time_point::min();
      const PlanResult result = planner(name).plan(graph, 0, options);
      EXPECT_EQ(validate(graph, result.schedule).value_or(""), "");
    }
  }
}

}  // namespace
}  // namespace ebbtide::scheduler
