// Checkmate: the model against the simulator, its planners against brute force. Tests of the
// planners are skipped where the solver's wheel is missing.
#include <gtest/gtest.h>

#include <optional>
#include <random>
#include <stdexcept>

#include "ebbtide/scheduler/planner.hpp"
#include "ebbtide/scheduler/simulator.hpp"
#include "ebbtide/scheduler/validator.hpp"
#include "honest_plan.hpp"
#include "layered_graph.hpp"
#include "planners/staged/checkmate_model.hpp"
#include "planners/staged/checkmate_planner.hpp"
#include "planners/staged/checkmate_rounding.hpp"
#include "random_graphs.hpp"
#include "random_orders.hpp"
#include "schedule_brute_force.hpp"
#include "small_chains.hpp"
#include "small_graphs.hpp"
#include "solver_test.hpp"

namespace ebbtide::scheduler {
namespace {

using Goal = CheckmateModel::Goal;

std::vector<RunKey> allReplays(const Graph& graph, const StagedRuns& runs) {
  std::vector<RunKey> all;
  const OpId ops = static_cast<OpId>(graph.ops.size());
  for (OpId stage = 0; stage < ops; ++stage) {
    for (OpId op = 0; op < stage; ++op) {
      if (runs.may(stage, op)) all.emplace_back(stage, op);
    }
  }
  return all;
}

// Are all rows met at a budget of the schedule's peak, and not at a byte less?
void expectExact(const Graph& graph, const StagedRuns& runs, const std::vector<RunKey>& replays) {
  const Bytes peak = simulate(graph, runs.schedule(replays)).peak_bytes;
  const CheckmateModel enough(graph, runs, peak, Goal::kTime, true);
  EXPECT_TRUE(enough.program().satisfied(enough.solutionOf(replays), 1e-9));
  const CheckmateModel scarce(graph, runs, peak - 1, Goal::kTime, true);
  EXPECT_FALSE(scarce.program().satisfied(scarce.solutionOf(replays), 1e-9));
  const CheckmateModel least(graph, runs, 0, Goal::kPeak, true);
  EXPECT_TRUE(least.program().satisfied(least.solutionOf(replays), 1e-9));
}

TEST(CheckmateModel, CountsWhatTheSimulatorCounts) {
  int exact = 0;
  for (std::uint64_t seed = 0; seed < 300; ++seed) {
    SCOPED_TRACE(seed);
    Graph graph =
        seed % 3 == 0 ? randomOrderGraph(seed, 3 + seed % 10) : randomGraph(seed, 2 + seed % 10);
    if (seed % 3 == 2) graph = withCopies(std::move(graph), seed);
    const StagedRuns runs(graph);
    expectExact(graph, runs, {});
    std::mt19937_64 random(seed);
    const std::uint64_t share = 1 + random() % 4;
    const std::vector<RunKey> replays =
        completedReplays(graph, runs, [&](OpId, ValueId) { return random() % 5 >= share; });
    if (runs.replaysOf(runs.schedule(replays)).size() != replays.size()) continue;
    const CheckmateModel model(graph, runs, 1, Goal::kPeak, true);
    // Some outputs of an op may be made again for nothing, which the model leaves out.
    if (model.solutionOf(replays).empty()) continue;
    ++exact;
    expectExact(graph, runs, replays);
  }
  EXPECT_GE(exact, 150);
}

TEST(CheckmateModel, CountsLazyOutputsAsTheSimulatorDoes) {
  const Graph graph = chainGraph(toyChain(), CostModel::kPaper);
  const StagedRuns runs(graph);
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937_64 random(seed);
    const std::vector<RunKey> replays =
        completedReplays(graph, runs, [&](OpId, ValueId) { return random() % 4 > 0; });
    if (runs.replaysOf(runs.schedule(replays)).size() == replays.size()) {
      expectExact(graph, runs, replays);
    }
  }
}

TEST(CheckmateModel, KnowsTheReplaysOfItsSolution) {
  const Graph graph = chain(4);
  const StagedRuns runs(graph);
  const std::vector<RunKey> replays =
      completedReplays(graph, runs, [](OpId, ValueId) { return false; });
  // Nothing retained but what the program holds: for each event the value that it reads is made
  // again from x up, in 4, 3, 2 and 1 replays.
  EXPECT_EQ(replays.size(), 10u);
  const CheckmateModel model(graph, runs, 100, Goal::kTime, true);
  EXPECT_EQ(model.replays(model.solutionOf(replays)).size(), replays.size());
  EXPECT_EQ(runs.replaysOf(runs.schedule(replays)), [&] {
    auto sorted = replays;
    std::sort(sorted.begin(), sorted.end());
    return sorted;
  }());
}

TEST(CheckmateRounding, GivesLegalSchedulesForAnyRetention) {
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    const Graph graph =
        seed % 3 == 0 ? randomOrderGraph(seed, 3 + seed % 20) : randomGraph(seed, 2 + seed % 20);
    const StagedRuns runs(graph);
    std::mt19937_64 random(seed);
    const Schedule schedule = runs.schedule(
        completedReplays(graph, runs, [&](OpId, ValueId) { return random() % 3 == 0; }));
    EXPECT_EQ(validate(graph, schedule).value_or(""), "") << seed;
  }
}

// Least time of replays in stages, over all sets of them; nothing if none fits or there are too
// many sets.
std::optional<Nanoseconds> leastInStages(const Graph& graph, Bytes budget) {
  const StagedRuns runs(graph);
  const std::vector<RunKey> all = allReplays(graph, runs);
  std::optional<Nanoseconds> least;
  for (unsigned set = 0; set < 1u << all.size(); ++set) {
    std::vector<RunKey> replays;
    Nanoseconds time = 0;
    for (std::size_t i = 0; i < all.size(); ++i) {
      if ((set >> i & 1) == 0) continue;
      replays.push_back(all[i]);
      time += graph.ops[all[i].op()].duration_ns;
    }
    if (least && time >= *least) continue;
    if (simulate(graph, runs.schedule(replays)).peak_bytes <= budget) least = time;
  }
  return least;
}

class CheckmatePlanners : public SolverTest {
 protected:
  void SetUp() override {
    SolverTest::SetUp();
    options_.named["work"] = "0";  // no help from the start
  }

  const CheckmatePlanner milp_{CheckmatePlanner::Method::kMilp};
  const CheckmatePlanner lp_{CheckmatePlanner::Method::kLp};
  PlannerOptions options_;
};

TEST_F(CheckmatePlanners, FindTheLeastTimeInStages) {
  for (std::uint64_t seed = 0; seed < 40; ++seed) {
    const Graph graph = seed % 2 == 0 ? randomOrderGraph(seed, 5) : randomGraph(seed, 3);
    if (allReplays(graph, StagedRuns(graph)).size() > 11) continue;
    const Bytes peak = simulate(graph, keepEverything(graph)).peak_bytes;
    for (Bytes budget : {peakLowerBound(graph), peak - 1}) {
      SCOPED_TRACE(testing::Message() << "seed " << seed << " budget " << budget);
      const PlanResult result = milp_.plan(graph, budget, options_);
      expectHonest(graph, budget, result);
      const auto least = leastInStages(graph, budget);
      ASSERT_EQ(result.feasible, least.has_value());
      if (least) {
        EXPECT_EQ(result.recompute_ns, *least);
      }
    }
  }
}

// The first output of an op may be any size, and there is one an op.
Graph randomPlainProgram(std::uint64_t seed, std::size_t ops) {
  Graph graph = randomOrderGraph(seed, ops);
  std::mt19937_64 random(seed);
  graph.any_order = false;
  for (Op& op : graph.ops) {
    op.duration_ns = 1 + static_cast<Nanoseconds>(random() % 20);
    op.rerunnable = random() % 6 > 0;
    op.fixed_bytes = static_cast<Bytes>(random() % 30);
    op.workspace_bytes = static_cast<Bytes>(random() % 10);
  }
  return graph;
}

TEST_F(CheckmatePlanners, AreRightWhenTheyClaimTheOptimum) {
  int claims = 0, optima = 0, feasible = 0;
  for (std::uint64_t seed = 0; seed < 60; ++seed) {
    const Graph graph = seed % 3 == 0 ? randomOrderGraph(seed, 4 + seed % 5)
                                      : randomPlainProgram(seed, 4 + seed % 5);
    const Bytes peak = simulate(graph, keepEverything(graph)).peak_bytes;
    const Bytes budget = (peakLowerBound(graph) + 3 * peak) / 4;
    if (budget >= peak) continue;
    SCOPED_TRACE(testing::Message() << "seed " << seed << " budget " << budget);
    const PlanResult result = milp_.plan(graph, budget, options_);
    expectHonest(graph, budget, result);
    const auto least = ScheduleBruteForce(graph, budget).leastReplayTime();
    if (!result.feasible) continue;
    ASSERT_GE(result.recompute_ns, least.value());
    ++feasible;
    optima += result.recompute_ns == *least;
    if (!result.optimal) continue;
    ++claims;
    EXPECT_EQ(result.recompute_ns, least.value());
  }
  EXPECT_GE(claims, 5);
  EXPECT_LT(optima, feasible);  // schedules in stages are not all there are
}

TEST_F(CheckmatePlanners, AreNeverWorseThanTheirStart) {
  const Graph graph = LayeredGraph({.nodes = 20}, 3).take();
  const Bytes peak = simulate(graph, keepEverything(graph)).peak_bytes;
  const Bytes budget = (peakLowerBound(graph) + 3 * peak) / 4;
  options_.named["solver-work"] = "1";  // no more than the root of the tree
  options_.named["work"] = "5000";
  const PlanResult result = milp_.plan(graph, budget, options_);
  expectHonest(graph, budget, result);
  PlannerOptions start;
  start.named["work"] = "5000";
  const PlanResult local = planner("moccasin-local").plan(graph, budget, start);
  ASSERT_TRUE(local.feasible && result.feasible);
  EXPECT_LE(result.recompute_ns, local.recompute_ns);
}

TEST_F(CheckmatePlanners, RoundTheRelaxationAndSayWhereItIsOverTheBudget) {
  int over = 0;
  for (std::uint64_t seed = 0; seed < 12; ++seed) {
    SCOPED_TRACE(seed);
    const Graph graph = LayeredGraph({.nodes = 16}, seed).take();
    const Bytes peak = simulate(graph, keepEverything(graph)).peak_bytes;
    const Bytes budget = (peakLowerBound(graph) + 3 * peak) / 4;
    if (budget >= peak) continue;
    PlannerOptions half;
    half.named["threshold"] = "50";
    const PlanResult papers = lp_.plan(graph, budget, half);
    const PlanResult swept = lp_.plan(graph, budget, {});
    expectHonest(graph, budget, papers);
    expectHonest(graph, budget, swept);
    over += !papers.feasible;
    EXPECT_GE(swept.feasible, papers.feasible);
    if (papers.feasible) {
      EXPECT_LE(swept.recompute_ns, papers.recompute_ns);
    }
  }
  EXPECT_GE(over, 1);
}

TEST_F(CheckmatePlanners, LeaveLargeGraphsToTheStart) {
  const Graph graph = LayeredGraph({.nodes = 600}, 3).take();
  const Bytes budget = simulate(graph, keepEverything(graph)).peak_bytes / 10 * 9;
  EXPECT_GT(CheckmateModel::size(graph, StagedRuns(graph)), CheckmatePlanner::kMostSize);
  const PlanResult start = milp_.plan(graph, budget, options_);
  expectHonest(graph, budget, start);
  EXPECT_EQ(start.planner, "moccasin-local");
  EXPECT_NE(start.note.find("too large for checkmate-milp"), std::string::npos) << start.note;
  const PlanResult nothing = lp_.plan(graph, budget, {});
  expectHonest(graph, budget, nothing);
  EXPECT_EQ(nothing.planner, "keep-everything");
  EXPECT_NE(nothing.note.find("too large for checkmate-lp"), std::string::npos) << nothing.note;
}

TEST_F(CheckmatePlanners, AnswerUnderTheirNamesWhereTheySolve) {
  const Graph graph = LayeredGraph({.nodes = 16}, 0).take();
  const Bytes peak = simulate(graph, keepEverything(graph)).peak_bytes;
  const PlanResult result = milp_.plan(graph, (peakLowerBound(graph) + peak) / 2, options_);
  EXPECT_EQ(result.planner, "checkmate-milp");
  EXPECT_EQ(result.note, "");
}

TEST(CheckmatePlanner, RejectsThresholdsThatAreNone) {
  const CheckmatePlanner lp(CheckmatePlanner::Method::kLp);
  for (const char* wrong : {"0", "100", "half", ""}) {
    PlannerOptions options;
    options.named["threshold"] = wrong;
    EXPECT_THROW(lp.plan(chain(3), 20, options), std::invalid_argument) << wrong;
  }
}

TEST(CheckmatePlanner, SaysHowToGetItsSolver) {
  const CheckmatePlanner milp(CheckmatePlanner::Method::kMilp);
  PlannerOptions options;
  options.named["ortools"] = "/no/such/folder";
  try {
    milp.plan(chain(3), 20, options);
    FAIL();
  } catch (const std::invalid_argument& missing) {
    EXPECT_NE(std::string(missing.what()).find("pip install ortools"), std::string::npos);
  }
  EXPECT_TRUE(milp.plan(chain(3), 1000, options).optimal);  // needs none
}

}  // namespace
}  // namespace ebbtide::scheduler
