// The solver's process: what it answers, and what is left when it is killed, late or refused.
#include "solver/solver_worker.hpp"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "ebbtide/scheduler/simulator.hpp"
#include "ebbtide/scheduler/time_lower_bound.hpp"
#include "layered_graph.hpp"
#include "solver/cp_sat_model.hpp"
#include "solver_test.hpp"

namespace ebbtide::scheduler {
namespace {

using End = SolverAnswer::End;
using Clock = SolverWorker::Clock;

class SolverWorkerTest : public SolverTest {
 protected:
  void SetUp() override {
    SolverTest::SetUp();
    files_ = openFiles();
  }
  // Neither files nor children are left by any test.
  void TearDown() override {
    if (IsSkipped()) return;
    EXPECT_EQ(openFiles(), files_);
    EXPECT_EQ(::waitpid(-1, nullptr, WNOHANG), -1);
    EXPECT_EQ(errno, ECHILD);
  }

  static std::ptrdiff_t openFiles() {
    const std::filesystem::directory_iterator files("/proc/self/fd");
    return std::distance(begin(files), end(files));
  }

  static Clock::time_point in(std::chrono::milliseconds time) { return Clock::now() + time; }

  std::ptrdiff_t files_ = 0;
};

// 7 <= a + 2 b <= 12 with a, b in 0 … 9; 3 a + 4 b is least where a = 1, b = 3: 15.
SolverRequest small() {
  CpSatModel model;
  const CpVariable a = model.addVariable(0, 9), b = model.addVariable(0, 9);
  model.addLinear({{{a, 1}, {b, 2}}}, 7, 12);
  model.minimize({{{a, 3}, {b, 4}}});
  return {Solver::kCpSat, model.wire(), CpSatParameters{}.wire()};
}

// Marks of a Golomb ruler: solutions come at once, the proof takes far longer than any test.
SolverRequest endless() {
  constexpr int kMarks = 16;
  CpSatModel model;
  std::vector<CpVariable> marks;
  for (int i = 0; i < kMarks; ++i) marks.push_back(model.addVariable(0, 1000));
  std::vector<CpInterval> differences;  // all different: as intervals of length 1
  for (int i = 0; i < kMarks; ++i) {
    for (int j = 0; j < i; ++j) {
      const CpVariable difference = model.addVariable(1, 1000);
      model.addLinear({{{marks[i], 1}, {marks[j], -1}, {difference, -1}}}, 0, 0);
      differences.push_back(model.addInterval(CpExpression::variable(difference),
                                              CpExpression::constant(1),
                                              CpExpression::variable(difference, 1)));
    }
  }
  model.addNoOverlap(differences);
  model.minimize({{{marks.back(), 1}}});
  return {Solver::kCpSat, model.wire(), CpSatParameters{}.wire()};
}

TEST_F(SolverWorkerTest, SolvesAndShowsTheWay) {
  SolverWorker worker(wheel_);
  std::vector<double> objectives;
  const SolverAnswer answer =
      worker.solve(small(), Clock::time_point::max(), [&](const std::string& bytes) {
        objectives.push_back(CpSatResponse::fromWire(bytes)->objective);
      });
  ASSERT_EQ(answer.end, End::kFinished) << answer.message;
  const auto response = CpSatResponse::fromWire(answer.bytes);
  ASSERT_TRUE(response);
  EXPECT_EQ(response->status, CpSatResponse::Status::kOptimal);
  EXPECT_EQ(response->objective, 15);
  EXPECT_EQ(response->values, (std::vector<std::int64_t>{1, 3}));
  ASSERT_FALSE(objectives.empty());
  EXPECT_EQ(objectives.back(), 15);
}

// The worker is gone when it returns, as TearDown() finds.
TEST_F(SolverWorkerTest, LeavesTheIncumbentWhenItIsCancelled) {
  SolverWorker worker(wheel_);
  std::atomic<bool> cancelled{false};
  SolverRequest request = endless();
  request.cancelled = &cancelled;
  std::string last;
  const SolverAnswer answer =
      worker.solve(request, Clock::time_point::max(), [&](const std::string& bytes) {
        last = bytes;
        cancelled = true;
      });
  EXPECT_EQ(answer.end, End::kLate);
  EXPECT_FALSE(answer.bytes.empty());
  EXPECT_EQ(answer.bytes, last);
}

TEST_F(SolverWorkerTest, LeavesTheIncumbentWhenItIsKilled) {
  SolverWorker worker(wheel_);
  std::string last;
  const SolverAnswer answer =
      worker.solve(endless(), Clock::time_point::max(), [&](const std::string& bytes) {
        last = bytes;
        ::kill(worker.pid(), SIGKILL);
      });
  EXPECT_EQ(answer.end, End::kDied);
  EXPECT_EQ(answer.message, "the solver's process was ended by signal 9");
  EXPECT_EQ(answer.bytes, last);  // or a later one that was under way
  EXPECT_EQ(CpSatResponse::fromWire(answer.bytes)->status, CpSatResponse::Status::kFeasible);
}

TEST_F(SolverWorkerTest, StopsAtTheDeadlineWithWhatItHas) {
  SolverWorker worker(wheel_);
  const SolverAnswer answer = worker.solve(endless(), in(std::chrono::milliseconds(300)));
  // Asked to stop it answers, unless the machine is too busy for that.
  EXPECT_TRUE(answer.end == End::kFinished || answer.end == End::kLate);
}

TEST_F(SolverWorkerTest, IsKilledWhereItDoesNotHeedTheDeadline) {
  SolverWorker worker(wheel_);
  ::kill(worker.pid(), SIGSTOP);
  const SolverAnswer answer = worker.solve(endless(), in(std::chrono::milliseconds(300)), {});
  EXPECT_EQ(answer.end, End::kLate);
}

TEST_F(SolverWorkerTest, IsKilledWhereItHasNotBeenAskedAnything) {
  EXPECT_GT(SolverWorker(wheel_).pid(), 0);
}

std::string textOf(pid_t pid, const char* file) {
  std::ifstream in("/proc/" + std::to_string(pid) + "/" + file);
  return {std::istreambuf_iterator<char>(in), {}};
}

TEST_F(SolverWorkerTest, LoadsNothingOfOursIntoTheSolver) {
  ::setenv("EBBTIDE_REPORT", "x", 1);
  ::setenv("EVERYTHING_ELSE", "y", 1);
  const SolverWorker worker(wheel_);
  std::string environment;  // still empty while the kernel sets the new program up
  for (int i = 0; i < 60'000 && environment.empty(); ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    environment = textOf(worker.pid(), "environ");
  }
  ::unsetenv("EBBTIDE_REPORT");
  ::unsetenv("EVERYTHING_ELSE");
  EXPECT_EQ(environment.find("EBBTIDE"), std::string::npos);
  EXPECT_NE(environment.find("EVERYTHING_ELSE=y"), std::string::npos);
}

TEST_F(SolverWorkerTest, EndsWhenThePlannersProcessDies) {
  int pipe[2];
  ASSERT_EQ(::pipe(pipe), 0);
  const pid_t planner = ::fork();
  if (planner == 0) {
    SolverWorker worker(wheel_);
    const pid_t pid = worker.pid();
    worker.solve(endless(), Clock::time_point::max(), [&](const std::string&) {
      if (::write(pipe[1], &pid, sizeof pid) != sizeof pid) ::_exit(1);
    });
    ::_exit(1);
  }
  pid_t solver = 0;
  ASSERT_EQ(::read(pipe[0], &solver, sizeof solver), ssize_t{sizeof solver});
  ::kill(planner, SIGKILL);
  ::waitpid(planner, nullptr, 0);
  ::close(pipe[0]);
  ::close(pipe[1]);
  const auto ended = [&] {  // gone, or left for init to reap
    const std::string status = textOf(solver, "stat");
    return status.empty() || status.find(") Z ") != std::string::npos;
  };
  for (int i = 0; i < 6000 && !ended(); ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  EXPECT_TRUE(ended());
}

TEST_F(SolverWorkerTest, HeedsADeadlineThatIsPast) {
  EXPECT_NE(SolverWorker(wheel_).solve(small(), Clock::time_point::min()).end, End::kDied);
}

TEST_F(SolverWorkerTest, SurvivesAnInputThatAbortsTheSolver) {
  SolverWorker worker(wheel_);
  const SolverAnswer answer =
      worker.solve({Solver::kCpSat, "\xff\xff\xff", ""}, Clock::time_point::max());
  EXPECT_EQ(answer.end, End::kDied);
  EXPECT_EQ(answer.message, "the solver's process was ended by signal 6");
}

TEST_F(SolverWorkerTest, SaysWhatCannotBeLoaded) {
  SolverWorker worker({"/no/such/library.so", "/nor/this.so"});
  const SolverAnswer answer = worker.solve(small(), Clock::time_point::max());
  EXPECT_EQ(answer.end, End::kRefused);
  EXPECT_NE(answer.message.find("/no/such/library.so"), std::string::npos) << answer.message;
}

TEST_F(SolverWorkerTest, SaysWhatIsWrongWithAModel) {
  CpSatModel model;
  model.addLinear({{{77, 1}}}, 0, 1);
  SolverWorker worker(wheel_);
  const SolverAnswer answer = worker.solve({Solver::kCpSat, model.wire(), CpSatParameters{}.wire()},
                                           Clock::time_point::max());
  const auto response = CpSatResponse::fromWire(answer.bytes);
  ASSERT_TRUE(response);
  EXPECT_EQ(response->status, CpSatResponse::Status::kInvalid);
}

TEST(SolverWheel, SaysHowToGetIt) {
  PlannerOptions options;
  options.named["ortools"] = "/no/such/folder";
  try {
    findSolverWheel(options);
    FAIL();
  } catch (const std::invalid_argument& error) {
    const std::string text = error.what();
    EXPECT_NE(text.find("pip install ortools==9.15.6755"), std::string::npos) << text;
    EXPECT_NE(text.find("/no/such/folder"), std::string::npos) << text;
  }
}

// Files of the right names that are no libraries: found, and refused by the loader.
TEST(SolverWheel, IsNotPassedOverWhereItsLibrariesDoNotLoad) {
  const std::filesystem::path folder =
      std::filesystem::temp_directory_path() / ("ebbtide-wheel-" + std::to_string(::getpid()));
  std::filesystem::create_directories(folder / "ortools" / ".libs");
  std::filesystem::create_directories(folder / "ortools-9.15.6755.dist-info");
  for (const char* library : {"libortools.so.9", "libhighs.so.1"}) {
    std::ofstream(folder / "ortools" / ".libs" / library) << "no library";
  }
  PlannerOptions options;
  options.named["ortools"] = folder.string();
  options.named["work"] = "0";
  const Graph graph = LayeredGraph({.nodes = 30}, 7).take();
  const Bytes budget = simulate(graph, keepEverything(graph)).peak_bytes * 8 / 10;
  for (const char* name : {"moccasin", "checkmate-milp"}) {
    try {
      planner(name).plan(graph, budget, options);
      ADD_FAILURE() << name;
    } catch (const std::invalid_argument& error) {
      const std::string text = error.what();
      EXPECT_NE(text.find("no solver: "), std::string::npos) << text;
      EXPECT_NE(text.find((folder / "ortools" / ".libs").string()), std::string::npos) << text;
      EXPECT_NE(text.find("pip install ortools==9.15.6755"), std::string::npos) << text;
    }
  }
  // A bound has another one to fall back on.
  EXPECT_EQ(timeLowerBound(graph, budget, options), recomputeLowerBound(graph, budget));
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace ebbtide::scheduler
