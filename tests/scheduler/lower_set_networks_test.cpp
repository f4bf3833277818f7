// The lower-set programs on networks of the shape of those in kusumoto2019, Table 1.
#include <gtest/gtest.h>

#include <numeric>

#include "paper_networks.hpp"
#include "planners/lower_sets/lower_set_dp.hpp"

namespace ebbtide::scheduler {
namespace {

std::int64_t sum(const std::vector<std::int64_t>& terms) {
  return std::accumulate(terms.begin(), terms.end(), std::int64_t{0});
}

void expectExactNoWorse(const LowerSetProblem& problem, std::size_t least_sets) {
  auto family = allLowerSets(problem, 6000, [] { return false; });
  ASSERT_TRUE(family);
  EXPECT_GE(family->size(), least_sets);
  const LowerSetSolver exact(problem, std::move(*family));
  const LowerSetSolver approx(problem);
  const std::int64_t budget = approx.smallestBudget();
  EXPECT_LE(exact.smallestBudget(), budget);
  EXPECT_LT(budget, 2 * sum(problem.memory));  // formula (2) for the one segment V
  const LowerSetPlan best = exact.solve(budget, LowerSetGoal::kLeastTime);
  const LowerSetPlan near = approx.solve(budget, LowerSetGoal::kLeastTime);
  const LowerSetPlan coarse = approx.solve(budget, LowerSetGoal::kMostTime);
  ASSERT_TRUE(best.feasible && near.feasible && coarse.feasible);
  EXPECT_LE(best.time, near.time);
  EXPECT_LE(near.time, coarse.time);
  EXPECT_LE(coarse.time, sum(problem.time));  // section 4.4: at most one round of the forward
  EXPECT_LE(std::max({best.peak, near.peak, coarse.peak}), budget);
}

TEST(PaperNetworks, HaveAboutThePapersNodes) {
  EXPECT_NEAR(static_cast<double>(resnet152().time.size()), 516, 5);
  EXPECT_NEAR(static_cast<double>(densenet161().time.size()), 568, 5);
  EXPECT_NEAR(static_cast<double>(googlenet().time.size()), 134, 20);
  EXPECT_NEAR(static_cast<double>(pspnet().time.size()), 385, 20);
}

// Each of the nine modules has, between its first and last node, branches of 1, 3, 3 and 2 nodes:
// (1 + 1) (3 + 1) (3 + 1) (2 + 1) = 96 lower sets.
TEST(PaperNetworks, GoogLeNet) {
  expectExactNoWorse(googlenet(), 9 * 96);
}

// The pyramid has four branches of 5 nodes: 6^4 = 1296 lower sets.
TEST(PaperNetworks, PspNet) {
  expectExactNoWorse(pspnet(), 1296);
}

TEST(PaperNetworks, ResNet152) {
  expectExactNoWorse(resnet152(), 516);
}

}  // namespace
}  // namespace ebbtide::scheduler
