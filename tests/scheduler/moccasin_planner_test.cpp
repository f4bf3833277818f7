// "moccasin" against brute force, against its start, and with its solver killed.
#include "planners/staged/moccasin_planner.hpp"

#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <fstream>
#include <limits>
#include <map>
#include <random>
#include <set>
#include <stdexcept>
#include <thread>
#include <utility>

#include "ebbtide/scheduler/simulator.hpp"
#include "honest_plan.hpp"
#include "layered_graph.hpp"
#include "model/run_sequence.hpp"
#include "planners/staged/moccasin_model.hpp"
#include "random_graphs.hpp"
#include "schedule_brute_force.hpp"
#include "small_graphs.hpp"
#include "solver/protobuf_wire.hpp"
#include "solver/solver_worker.hpp"
#include "solver_test.hpp"
#include "unit_graphs.hpp"

namespace ebbtide::scheduler {
namespace {

constexpr Nanoseconds kNever = std::numeric_limits<Nanoseconds>::max();

Graph randomUnitGraph(std::uint64_t seed, std::size_t ops) {
  std::mt19937_64 random(seed);
  UnitGraph unit;
  for (std::size_t op = 0; op < ops; ++op) {
    std::set<ValueId> inputs;
    for (std::size_t i = 0; op > 0 && i < 1 + random() % 2; ++i) {
      inputs.insert(static_cast<ValueId>(random() % op));
    }
    unit.add({inputs.begin(), inputs.end()}, static_cast<Bytes>(1 + random() % 9));
  }
  Graph graph = unit.take();
  for (Op& op : graph.ops) op.duration_ns = static_cast<Nanoseconds>(1 + random() % 9);
  return graph;
}

Bytes middle(const Graph& graph) {
  return (peakLowerBound(graph) + simulate(graph, keepEverything(graph)).peak_bytes) / 2;
}

// Least replay time of all schedules in the input order that replay each op at most once, in any
// stage, stages in op order: (n - v) choices for op v, n! schedules.
class StagedBruteForce {
 public:
  StagedBruteForce(const Graph& graph, Bytes budget)
      : graph_(graph), budget_(budget), stage_(graph.ops.size(), kNone) {}

  Nanoseconds run() {
    choose(0);
    return best_;
  }

 private:
  void choose(std::size_t op) {
    if (op == stage_.size()) return judge();
    stage_[op] = kNone;
    choose(op + 1);
    for (std::size_t stage = op + 1; stage < stage_.size(); ++stage) {
      stage_[op] = static_cast<OpId>(stage);
      choose(op + 1);
    }
  }

  void judge() {
    std::vector<OpId> runs;
    for (std::size_t stage = 0; stage < stage_.size(); ++stage) {
      for (std::size_t op = 0; op < stage; ++op) {
        if (stage_[op] == static_cast<OpId>(stage)) runs.push_back(static_cast<OpId>(op));
      }
      runs.push_back(static_cast<OpId>(stage));
    }
    const Simulation simulation = simulate(graph_, scheduleOfRuns(graph_, runs));
    if (simulation.peak_bytes <= budget_) best_ = std::min(best_, simulation.recompute_ns);
  }

  const Graph& graph_;
  Bytes budget_;
  std::vector<OpId> stage_;
  Nanoseconds best_ = kNever;
};

class MoccasinPlannerTest : public SolverTest {
 protected:
  static PlanResult plan(const Graph& graph, Bytes budget,
                         std::map<std::string, std::string> named) {
    PlannerOptions options;
    options.named = std::move(named);
    PlanResult result = MoccasinPlanner().plan(graph, budget, options);
    expectHonest(graph, budget, result);
    return result;
  }
};

void expectLeast(const PlanResult& result, Nanoseconds least) {
  EXPECT_EQ(result.feasible, least != kNever);
  if (result.feasible) {
    EXPECT_EQ(result.recompute_ns, least);
  }
}

TEST_F(MoccasinPlannerTest, AgreesWithBruteForceInTheInputOrder) {
  for (std::uint64_t seed = 0; seed < 8; ++seed) {
    SCOPED_TRACE(seed);
    const Graph graph = randomUnitGraph(seed, 5 + seed % 3);
    const Bytes budget = middle(graph);
    const Nanoseconds least = StagedBruteForce(graph, budget).run();
    // From nothing, so that the program finds it all.
    expectLeast(plan(graph, budget, {{"start", "plain"}}), least);
    expectLeast(plan(graph, budget, {{"start", "plain"}, {"reads", "reservoir"}}), least);
  }
}

TEST_F(MoccasinPlannerTest, AgreesWithBruteForceInTheFreeOrder) {
  int proven = 0;
  for (std::uint64_t seed = 0; seed < 8; ++seed) {
    SCOPED_TRACE(seed);
    const Graph graph = randomUnitGraph(seed, 6 + seed % 4);
    const Bytes budget = middle(graph);
    const PlanResult result = plan(graph, budget, {{"order", "free"}, {"intervals", "3"}});
    const Nanoseconds least = ScheduleBruteForce(graph, budget).leastReplayTime().value_or(kNever);
    EXPECT_TRUE(!result.feasible || result.recompute_ns >= least);
    EXPECT_LE(result.recompute_bound_ns, least);
    if (!result.optimal) continue;
    ++proven;
    EXPECT_EQ(result.recompute_bound_ns, result.recompute_ns);
    expectLeast(result, least);
  }
  EXPECT_GE(proven, 6);
}

TEST_F(MoccasinPlannerTest, ChoosesTheOrderOfATree) {
  // 8 leaves of 1 byte, one op reading two. In the input order all leaves are live together, and
  // the first inner op needs its output too: 9 bytes. Depth first 5 do: a subtree of 4 leaves and
  // one of 2 wait while the last pair is joined.
  const Graph graph = unitTree(4);
  EXPECT_EQ(simulate(graph, keepEverything(graph)).peak_bytes, 9);
  const PlanResult result = plan(graph, 5, {{"order", "free"}, {"start", "plain"}});
  EXPECT_TRUE(result.feasible && result.optimal);
  EXPECT_EQ(result.recompute_ns, 0);
}

// All variables fixed to the hint: is it a solution, and what is its peak?
double peakOfHint(const Graph& graph, const Schedule& schedule, const MoccasinSettings& settings) {
  const Bytes most = 3 * simulate(graph, schedule).peak_bytes + 1;
  MoccasinModel model(graph, settings, {0, most, kNever});
  EXPECT_TRUE(model.hint(schedule));
  const std::string parameters =
      CpSatParameters{}.wire() + ProtobufMessage().integer(192, 1).wire();
  const SolverAnswer answer = SolverWorker(findSolverWheel({}))
                                  .solve({Solver::kCpSat, model.wire(), parameters},
                                         SolverWorker::Clock::time_point::max());
  const auto response = CpSatResponse::fromWire(answer.bytes);
  EXPECT_TRUE(response && response->status == CpSatResponse::Status::kOptimal);
  return response ? response->objective : 0;
}

TEST_F(MoccasinPlannerTest, CountsBytesAsTheSimulatorDoes) {
  for (std::uint64_t seed = 0; seed < 6; ++seed) {
    SCOPED_TRACE(seed);
    const bool recorded = seed % 2 == 1;
    const Graph graph = recorded ? randomGraph(seed, 15) : randomUnitGraph(seed, 12);
    PlannerOptions options;
    options.named = {{"work", "2000"}, {"intervals", "2"}};
    const Schedule start = planner("moccasin-local").plan(graph, middle(graph), options).schedule;
    const auto peak = static_cast<double>(simulate(graph, start).peak_bytes);
    for (const bool reservoir : {false, true}) {
      const double counted = peakOfHint(graph, start, {.reservoir = reservoir});
      EXPECT_GE(counted, peak);
      if (!recorded) {
        EXPECT_EQ(counted, peak);
        EXPECT_EQ(peakOfHint(graph, start, {.free_order = true, .reservoir = reservoir}), peak);
      }
    }
  }
}

// As addValueCopies() has it: op 0 makes 100 bytes and 10 of their encoded copy, and op 1, which
// reads that alone, writes over the 100, which the program holds. 110 bytes, not 210.
TEST_F(MoccasinPlannerTest, CountsBytesThatAreTakenOverUnread) {
  Graph graph;
  const ValueId born = addForward(graph, {}, 100, 5);
  const ValueId encoded = addGraphInput(graph, 10);
  graph.values[encoded].producer = 0;
  graph.ops[0].outputs.push_back(encoded);
  graph.ops[0].rerunnable = false;
  const ValueId decoded = addForward(graph, {encoded}, 100, 1);
  graph.values[born].last_reference = graph.values[born].overwritten_by = 1;
  graph.values[decoded].previous_epoch = born;
  addEvent(graph, {decoded});
  checkGraph(graph);
  const Schedule everything = keepEverything(graph);
  EXPECT_EQ(simulate(graph, everything).peak_bytes, 110);
  EXPECT_EQ(peakOfHint(graph, everything, {}), 110);
}

TEST_F(MoccasinPlannerTest, IsNoWorseThanItsStart) {
  for (std::uint64_t seed = 0; seed < 6; ++seed) {
    const Graph graph = randomGraph(seed, 20);
    const Bytes budget = middle(graph);
    PlannerOptions options;
    options.named = {{"work", "2000"}, {"intervals", "2"}};
    const PlanResult start = planner("moccasin-local").plan(graph, budget, options);
    const PlanResult result = plan(graph, budget, {{"work", "2000"}, {"solver-work", "50"}});
    EXPECT_GE(result.feasible, start.feasible);
    if (start.feasible) {
      EXPECT_LE(result.recompute_ns, start.recompute_ns);
    }
  }
}

// Until told to stop it kills each child of this process as soon as it is there.
class Killer {
 public:
  Killer() : thread_([this] { run(); }) {}
  ~Killer() {
    stop_ = true;
    thread_.join();
  }
  int killed() const { return killed_; }

 private:
  void run() {
    while (!stop_) {
      std::this_thread::sleep_for(std::chrono::milliseconds(150));
      for (const auto& task : std::filesystem::directory_iterator("/proc/self/task")) {
        std::ifstream children(task.path() / "children");
        for (pid_t child = 0; children >> child;) killed_ += ::kill(child, SIGKILL) == 0;
      }
    }
  }

  std::atomic<bool> stop_ = false;
  std::atomic<int> killed_ = 0;
  std::thread thread_;
};

TEST_F(MoccasinPlannerTest, KeepsWhatItHasWhenTheSolverIsKilled) {
  const Graph graph = LayeredGraph({.nodes = 100}, 7).take();
  const Bytes peak = simulate(graph, keepEverything(graph)).peak_bytes;
  PlanResult result;
  int killed = 0;
  {
    const Killer killer;
    result = plan(graph, peak * 8 / 10, {{"start", "plain"}});
    killed = killer.killed();
  }
  EXPECT_GE(killed, 1);
  EXPECT_LE(result.peak_bytes, peak);
}

TEST(MoccasinPlanner, SaysHowToGetTheSolver) {
  PlannerOptions options;
  options.named["ortools"] = "/no/such/folder";
  EXPECT_THROW(MoccasinPlanner().plan(chain(3), 10, options), std::invalid_argument);
}

TEST(MoccasinPlanner, RejectsOptionsOutOfRange) {
  for (const auto& [name, value] : std::map<std::string, std::string>{
           {"intervals", "0"}, {"order", "best"}, {"start", "x"}, {"reads", "x"}}) {
    PlannerOptions options;
    options.named[name] = value;
    EXPECT_THROW(MoccasinPlanner().plan(chain(3), 10, options), std::invalid_argument) << name;
  }
}

TEST(RunSequence, DropsAfterTheLastRead) {
  // 0 -> 1 -> 2, and 2 reads 0 made again: the first copy of 0 ends with op 1.
  UnitGraph unit;
  const ValueId a = unit.add({}), b = unit.add({a});
  unit.add({a, b});
  const Schedule schedule = scheduleOfRuns(unit.take(), {0, 1, 0, 2});
  const std::vector<Step> expected = {run(0), run(1),  drop(0), run(0),
                                      run(2), drop(0), drop(1), drop(2)};
  EXPECT_EQ(schedule.steps, expected);
}

}  // namespace
}  // namespace ebbtide::scheduler
