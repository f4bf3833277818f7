#include "solver/highs.hpp"

#include <gtest/gtest.h>
#include <signal.h>

#include <stdexcept>

#include "layered_graph.hpp"
#include "planners/staged/checkmate_model.hpp"
#include "solver/solver_worker.hpp"
#include "solver_test.hpp"

namespace ebbtide::scheduler {
namespace {

using Status = HighsSolution::Status;

TEST(HighsMessage, SurvivesItsBytes) {
  HighsSolution solution;
  solution.status = Status::kInfeasible;
  solution.objective = 3;
  solution.bound = 2;
  solution.values = {1, 0.5};
  solution.row_duals = {-1};
  const std::string bytes = solution.toBytes();
  EXPECT_EQ(HighsSolution::fromBytes(bytes).toBytes(), bytes);
  HighsParameters parameters;
  parameters.nodes = 7;
  parameters.start = {0, 1};
  EXPECT_EQ(HighsParameters::fromBytes(parameters.toBytes()).toBytes(), parameters.toBytes());
  for (std::size_t size = 0; size < bytes.size(); ++size) {
    EXPECT_THROW(HighsSolution::fromBytes(bytes.substr(0, size)), std::runtime_error) << size;
  }
}

using HighsSolver = SolverTest;

// maximise 5x + 4y, 6x + 4y ≤ 24, x + 2y ≤ 6: x = 3, y = 1.5 gives 21. Of whole numbers x = 4,
// y = 0 is the best, with 20.
LinearProgram textbook(bool whole) {
  LinearProgram program;
  const auto x = program.addColumn(-5, 0, 10, whole), y = program.addColumn(-4, 0, 10, whole);
  program.addRow({{x, 6}, {y, 4}}, -LinearProgram::kInfinity, 24);
  program.addRow({{x, 1}, {y, 2}}, -LinearProgram::kInfinity, 6);
  return program;
}

TEST_F(HighsSolver, SolvesProgramsAndTheirDuals) {
  const HighsSolution solution = Highs(wheel_, {}).solve(textbook(false));
  EXPECT_EQ(solution.status, Status::kOptimal);
  EXPECT_NEAR(solution.objective, -21, 1e-6);
  EXPECT_NEAR(solution.values.at(1), 1.5, 1e-6);
  EXPECT_NEAR(safeDualBound(textbook(false), solution.row_duals), -21, 1e-6);
}

TEST_F(HighsSolver, SolvesIntegerProgramsAndTellsOfIncumbents) {
  double told = 0;
  const HighsSolution solution =
      Highs(wheel_, {}).solve(textbook(true), {1, 1}, [&](const HighsSolution& one) {
        told = std::min(told, one.objective);
      });
  EXPECT_EQ(solution.status, Status::kOptimal);
  EXPECT_NEAR(solution.objective, -20, 1e-6);
  EXPECT_NEAR(solution.bound, -20, 1e-6);
  EXPECT_LE(told, -9 + 1e-6);  // the start's at least
}

TEST_F(HighsSolver, SaysThatThereIsNoSolution) {
  LinearProgram program = textbook(true);
  program.row_upper[1] = -1;
  const HighsSolution solution = Highs(wheel_, {}).solve(program);
  EXPECT_EQ(solution.status, Status::kInfeasible);
  EXPECT_TRUE(solution.values.empty());
}

TEST_F(HighsSolver, LeavesItsIncumbentWhenItIsKilled) {
  const Graph graph = LayeredGraph({.nodes = 40}, 1).take();
  const StagedRuns runs(graph);
  const CheckmateModel model(graph, runs, 0, CheckmateModel::Goal::kPeak, true);
  HighsParameters parameters;
  parameters.seconds = 60;
  parameters.nodes = 1'000'000;
  parameters.start = model.solutionOf({});
  SolverWorker worker(wheel_);
  const SolverAnswer answer =
      worker.solve({Solver::kHighs, model.program().toBytes(), parameters.toBytes()},
                   std::chrono::steady_clock::now() + std::chrono::seconds(60),
                   [&](const std::string&) { kill(worker.pid(), SIGKILL); });
  EXPECT_EQ(answer.end, SolverAnswer::End::kDied);
  const HighsSolution incumbent = HighsSolution::fromBytes(answer.bytes);
  EXPECT_TRUE(model.program().satisfied(incumbent.values, 1e-5));
}

}  // namespace
}  // namespace ebbtide::scheduler
