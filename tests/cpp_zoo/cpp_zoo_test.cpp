// Programs of plain LibTorch under LD_PRELOAD: the same bits within a budget.

#include <gtest/gtest.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "ebbtide/scheduler/planner.hpp"

extern char** environ;

namespace ebbtide {
namespace {

constexpr int kSteps = 8;

std::string readAll(const std::filesystem::path& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

// Quick, and the same on a busy machine; auto in ./dev test --all, as users have it.
std::string plannerOfPrograms() {
  const char* const given = std::getenv("TEST_PLANNER");
  return given == nullptr ? "greedy" : given;
}

std::vector<std::string> environmentWithout(std::string_view prefix) {
  std::vector<std::string> kept;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    if (!std::string_view(*entry).starts_with(prefix)) kept.emplace_back(*entry);
  }
  return kept;
}

class ChildTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = (std::filesystem::temp_directory_path() / "cpp-zoo-XXXXXX").string();
    ASSERT_NE(mkdtemp(pattern.data()), nullptr);
    folder_ = pattern;
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  // Trains it in a child process; returns what it wrote. No variables: plain LibTorch.
  std::string train(const std::string& program, const std::vector<std::string>& variables) {
    const std::string result = (folder_ / "result").string();
    std::vector<std::string> environment = environmentWithout("EBBTIDE");
    environment.emplace_back("OMP_NUM_THREADS=1");
    if (!variables.empty()) {
      environment.emplace_back("LD_PRELOAD=" EBBTIDE_LIBRARY);
      environment.push_back("EBBTIDE_REPORT=" + reportPath());
      environment.emplace_back("EBBTIDE_LOG=warning");
      environment.insert(environment.end(), variables.begin(), variables.end());
    }
    std::vector<char*> pointers;
    for (std::string& entry : environment) pointers.push_back(entry.data());
    pointers.push_back(nullptr);
    std::vector<std::string> words = {EBBTIDE_PROGRAMS, program, result};
    std::vector<char*> arguments = {words[0].data(), words[1].data(), words[2].data(), nullptr};
    pid_t child = 0;
    EXPECT_EQ(
        posix_spawn(&child, EBBTIDE_PROGRAMS, nullptr, nullptr, arguments.data(), pointers.data()),
        0);
    int status = -1;
    EXPECT_EQ(waitpid(child, &status, 0), child);
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << "status " << status;
    return readAll(result);
  }

  nlohmann::json report() const { return nlohmann::json::parse(readAll(reportPath())); }

 private:
  std::string reportPath() const { return (folder_ / "report.json").string(); }

  std::filesystem::path folder_;
};

class CppZoo : public ChildTest, public testing::WithParamInterface<const char*> {
 protected:
  std::string train(const std::vector<std::string>& variables) {
    return ChildTest::train(GetParam(), variables);
  }
};

TEST_P(CppZoo, SameBitsWithinTheBudget) {
  const std::string expected = train({});
  // A line for each state, and one for each loss at least.
  ASSERT_GE(std::count(expected.begin(), expected.end(), '\n'), 2 * kSteps);
  const std::string planner = "EBBTIDE_PLANNER=" + plannerOfPrograms();
  EXPECT_EQ(train({"EBBTIDE=1", planner}), expected);
  const auto measured = report();
  const auto activations = measured["activation_bytes"].get<std::int64_t>();
  ASSERT_GT(activations, 0);
  const auto budget = measured["plain_peak_bytes"].get<std::int64_t>() - activations / 2;
  // How much threads hold at once differs from run to run: the budget may be below what one needs.
  const bool steady = std::string_view(GetParam()) != "data_parallel_threads";
  // Offloading may be quicker than any replay where the machine is busy.
  std::vector<std::string> variables = {"EBBTIDE_BUDGET=" + std::to_string(budget),
                                        "EBBTIDE_OFFLOAD=never", planner};
  if (!steady) variables.emplace_back("EBBTIDE_ON_INFEASIBLE=best-effort");
  EXPECT_EQ(train(variables), expected);
  const auto done = report();
  EXPECT_FALSE(done["pass_through"].get<bool>());
  if (!steady) return;
  EXPECT_EQ(done["budget_violations"].get<std::int64_t>(), 0);
  EXPECT_GT(done["recomputed_ops"].get<std::int64_t>() + done["decoded_values"].get<std::int64_t>(),
            0);
}

INSTANTIATE_TEST_SUITE_P(All, CppZoo,
                         testing::Values("custom_functions", "custom_in_place", "in_place",
                                         "dropout", "data_parallel_threads", "hinted_writes",
                                         "hinted_saliency"),
                         [](const auto& instance) { return std::string(instance.param); });

// By the planner's name.
class RawWrites : public ChildTest, public testing::WithParamInterface<std::string> {
 protected:
  static constexpr const char* kProgram = "raw_writes";
};

// A replay of what gave the memory would give that of the poison: its bytes are kept or spilled. Of
// the six MiB that a layer saves two are written so; a quarter of all is given up.
TEST_P(RawWrites, AreNotComputedAgain) {
  const std::string expected = train(kProgram, {});
  ASSERT_GE(std::count(expected.begin(), expected.end(), '\n'), 2 * kSteps);
  ASSERT_EQ(expected.find("nan"), std::string::npos);
  ASSERT_EQ(train(kProgram, {"EBBTIDE=1"}), expected);
  const auto measured = report();
  const auto budget = measured["plain_peak_bytes"].get<std::int64_t>() -
                      measured["activation_bytes"].get<std::int64_t>() / 4;
  for (const std::string_view offload : {"never", "auto"}) {
    SCOPED_TRACE(std::string(offload));
    EXPECT_EQ(
        train(kProgram, {"EBBTIDE_BUDGET=" + std::to_string(budget),
                         "EBBTIDE_OFFLOAD=" + std::string(offload), "EBBTIDE_PLANNER=" + GetParam(),
                         "EBBTIDE_ON_INFEASIBLE=best-effort"}),
        expected);
    const auto done = report();
    EXPECT_FALSE(done["pass_through"].get<bool>());
    if (GetParam() == "greedy" && offload == "never") {  // a chain's planner, say, has no plan
      EXPECT_GT(done["recomputed_ops"].get<std::int64_t>(), 0);
    }
  }
}

std::vector<std::string> plannersBut(std::string_view left_out) {
  std::vector<std::string> names;
  for (const auto& planner : scheduler::planners()) {
    if (planner->info().name != left_out) names.push_back(planner->info().name);
  }
  return names;
}

std::string identifier(const testing::TestParamInfo<std::string>& planner) {
  std::string name = planner.param;
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
}

INSTANTIATE_TEST_SUITE_P(EveryTime, RawWrites, testing::Values("greedy"), identifier);
INSTANTIATE_TEST_SUITE_P(Nightly, RawWrites, testing::ValuesIn(plannersBut("greedy")), identifier);

}  // namespace
}  // namespace ebbtide
