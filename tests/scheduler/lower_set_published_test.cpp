// The lower-set program on the graphs of kusumoto2019, Table 1.
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <numeric>
#include <string>

#include "lower_set_dp.hpp"

namespace ebbtide::scheduler {
namespace {

struct Function {
  std::vector<std::size_t> inputs, outputs;
  std::string type;
  int rank = 0;
};

std::vector<Function> readForward(std::istream& in, std::size_t functions) {
  std::vector<Function> forward;
  std::string line, direction, tag;
  for (std::size_t i = 0; i < functions; ++i) {
    std::size_t inputs = 0, outputs = 0;
    in >> direction >> inputs >> outputs;
    Function function;
    function.inputs.resize(inputs);
    function.outputs.resize(outputs);
    for (std::size_t& input : function.inputs) in >> input >> tag;
    for (std::size_t& output : function.outputs) in >> output;
    in >> function.type;
    std::getline(in >> std::ws, line);
    const std::size_t rank = line.find("\"rank\": ");
    if (rank != std::string::npos) function.rank = std::stoi(line.substr(rank + 8));
    if (direction == "forward") forward.push_back(function);
  }
  std::sort(forward.begin(), forward.end(),
            [](const Function& a, const Function& b) { return a.rank < b.rank; });
  return forward;
}

// Nodes are the outputs of forward functions; T_v is 10 for a convolution and 1 otherwise (section
// 3).
LowerSetProblem readProblem(std::istream& in) {
  std::size_t variables = 0, functions = 0;
  in >> variables >> functions;
  std::vector<std::int64_t> bytes(variables);
  for (std::size_t i = 0; i < variables; ++i) {
    std::size_t id = 0;
    std::string name;
    in >> id >> name;
    bytes.at(id) = std::stoll(name);
    in >> name;
  }
  LowerSetProblem problem;
  std::vector<std::int32_t> node(variables, -1);
  for (const Function& function : readForward(in, functions)) {
    for (std::size_t output : function.outputs) {
      node.at(output) = static_cast<std::int32_t>(problem.time.size());
      problem.time.push_back(function.type.find("Convolution") != std::string::npos ? 10 : 1);
      problem.memory.push_back(bytes.at(output));
      problem.next.emplace_back();
      for (std::size_t input : function.inputs) {
        if (node.at(input) >= 0) problem.next[node[input]].push_back(node[output]);
      }
    }
  }
  return problem;
}

class PublishedGraph : public testing::TestWithParam<const char*> {};

TEST_P(PublishedGraph, TimeCentricIsCheaperAndBothKeepTheBudget) {
  const std::string folder = EBBTIDE_PUBLISHED_DATA;
  if (folder.empty()) {
    GTEST_SKIP() << "configure with -DEBBTIDE_PUBLISHED_DATA=FOLDER to test the published graphs";
  }
  std::ifstream file(folder + "/graphs/kusumoto/" + GetParam());
  ASSERT_TRUE(file) << "no graphs/kusumoto/" << GetParam() << " in " << folder;
  const LowerSetProblem problem = readProblem(file);
  ASSERT_GT(problem.time.size(), 20u);
  const LowerSetSolver solver(problem);
  const std::int64_t budget = solver.smallestBudget();
  const auto all_bytes =
      std::accumulate(problem.memory.begin(), problem.memory.end(), std::int64_t{0});
  const auto all_time = std::accumulate(problem.time.begin(), problem.time.end(), std::int64_t{0});
  EXPECT_LT(budget, 2 * all_bytes);  // formula (2) for the one segment V
  const LowerSetPlan fine = solver.solve(budget, LowerSetGoal::kLeastTime);
  const LowerSetPlan coarse = solver.solve(budget, LowerSetGoal::kMostTime);
  ASSERT_TRUE(fine.feasible && coarse.feasible);
  EXPECT_LE(fine.peak, budget);
  EXPECT_LE(coarse.peak, budget);
  EXPECT_LE(fine.time, coarse.time);
  EXPECT_LE(coarse.time, all_time);  // section 4.4: at most one round of the forward computation
  RecordProperty("nodes", static_cast<int>(problem.time.size()));
  RecordProperty("budget_over_plain_permille", static_cast<int>(1000 * budget / (2 * all_bytes)));
}

INSTANTIATE_TEST_SUITE_P(Kusumoto, PublishedGraph,
                         testing::Values("cg_vgg19.txt", "cg_resnet50.txt", "cg_unet.txt"));

}  // namespace
}  // namespace ebbtide::scheduler
