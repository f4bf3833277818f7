#include "plan/budget_curve.hpp"

#include <gtest/gtest.h>

#include <fstream>
#include <iterator>

#include "ebbtide/scheduler/simulator.hpp"

namespace ebbtide::plugin {
namespace {

constexpr std::int64_t kFree = 1000;  // of a budget, what no plan uses

std::shared_ptr<const scheduler::Trace> recorded(const char* name) {
  std::ifstream file(std::string(EBBTIDE_TEST_DATA) + "/" + name + ".json");
  const std::string text{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  return std::make_shared<const scheduler::Trace>(scheduler::traceFromJson(text));
}

TEST(BudgetCurve, LessMemoryCostsMoreTime) {
  const PlanSearch search(
      {.planner = "greedy", .planning_time = std::chrono::hours(24), .work = 1'000'000},
      [](const std::string&) {});
  const auto trace = recorded("gpt_step");
  BudgetCurve curve(trace, false, [](std::int64_t peak) { return peak + kFree; });
  int pieces = 0;
  for (; !curve.done(); ++pieces) curve.addPoint(search);
  EXPECT_EQ(pieces, BudgetCurve::kPoints);
  curve.addPoint(search);  // no more

  const auto graph = scheduler::buildGraph(*trace);
  const std::int64_t plain =
      scheduler::simulate(graph.graph, scheduler::keepEverything(graph.graph)).peak_bytes;
  const auto& points = curve.points();
  ASSERT_GE(points.size(), 3u);
  EXPECT_EQ(points.back(), (BudgetCurve::Point{plain + kFree, plain, 0}));
  for (std::size_t i = 0; i < points.size(); ++i) {
    EXPECT_LE(points[i].predicted_peak_bytes + kFree, points[i].budget_bytes);
    if (i == 0) continue;
    EXPECT_GT(points[i].budget_bytes, points[i - 1].budget_bytes);
    EXPECT_LT(points[i].overhead_ratio, points[i - 1].overhead_ratio);
  }
}

}  // namespace
}  // namespace ebbtide::plugin
