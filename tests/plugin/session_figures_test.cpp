// Whoever asks a session for a figure of its run is told the same one.
#include <regex>

#include "controlled_session.hpp"

namespace ebbtide::plugin {
namespace {

using nlohmann::json;
using test::Answered;
using test::kMib;

class SessionFiguresTest : public test::ControlledSession {
 protected:
  std::string series() {
    std::string text;
    session_->routes().answer({.method = "GET", .path = "/metrics"},
                              [&text](const metrics::Response& response) { text = response.body; });
    return text;
  }
  static double value(const std::string& series, const std::string& name) {
    std::smatch found;
    const bool there =
        std::regex_search(series, found, std::regex("(?:^|\n)" + name + "\\{[^}]*\\} (\\S+)"));
    EXPECT_TRUE(there) << name;
    return there ? std::stod(found[1]) : 0;
  }
  // Of the last step. An older report, which the planning thread made, may take its place: it is
  // written again.
  json report() {
    const json steps = get("/v1/status").body["steps"];
    json report;
    EXPECT_TRUE(comesTrue([&] {
      session_->writeReport();
      std::ifstream file(config_.report_path);
      report = json::parse(file);
      return report["steps"] == steps;
    }));
    return report;
  }
  void beginWithReport(std::int64_t budget) {
    std::filesystem::create_directories(folder_);
    config_.report_path = (folder_ / "report.json").string();
    begin(budget);
  }
};

// The recorded GPT step has more lower sets than that planner lists: another one answers.
TEST_F(SessionFiguresTest, WhoAnswersForAnotherPlannerIsNamedWithTheReason) {
  config_.planner = "kusumoto-exact";
  config_.planning_work.reset();  // it has no such option
  config_.log_level = "info";
  testing::internal::CaptureStderr();
  beginWithReport(plain_bytes_ - saved_bytes_ / 4);
  std::shared_ptr<const Plan> plan;
  ASSERT_TRUE(comesTrue([&] { return (plan = step()) != nullptr; }));
  const json status = get("/v1/status").body["plan"], report = this->report()["plan"];
  const std::string said = testing::internal::GetCapturedStderr();
  EXPECT_EQ(plan->asked, "kusumoto-exact");
  EXPECT_EQ(plan->planner.rfind("kusumoto-approx", 0), 0u) << plan->planner;
  EXPECT_NE(plan->note.find("lower sets that kusumoto-exact lists"), std::string::npos);
  const std::string by =
      "plan by " + plan->planner + " (kusumoto-exact was asked: " + plan->note + ") in ";
  EXPECT_NE(said.find(by), std::string::npos) << said;
  for (const json& told : {status, report}) {
    EXPECT_EQ(told["asked"], "kusumoto-exact") << told;
    EXPECT_EQ(told["planner"], plan->planner) << told;
    EXPECT_EQ(told["note"], plan->note) << told;
  }
}

// Asked, in this order: a refused budget, the curve, the status, the series, the report.
TEST_F(SessionFiguresTest, TheSmallestBudgetIsOneFigure) {
  beginWithReport(4 * plain_bytes_ + (std::int64_t{1} << 30));
  for (int i = 0; i < 4; ++i) step();
  const Answered refused = post("/v1/budget", {{"budget", 1}});
  ASSERT_EQ(refused.status, 409) << refused.body;
  const std::int64_t smallest = refused.body["smallest_feasible_budget_bytes"];
  EXPECT_EQ(smallest % kMib, 0);  // as EBBTIDE_BUDGET is told
  const json curve = wholeCurve([] {});
  ASSERT_FALSE(curve["points"].empty()) << curve;
  for (const json& point : curve["points"]) EXPECT_GE(point["budget_bytes"], smallest);
  step();  // series are those of a step's end
  EXPECT_EQ(get("/v1/status").body["smallest_feasible_budget_bytes"], smallest);
  EXPECT_EQ(value(series(), "ebbtide_memory_smallest_feasible_budget_bytes"), smallest);
  EXPECT_EQ(report()["smallest_feasible_budget_bytes"], smallest);
}

// 40 MiB more live from the fifth step on: whoever is asked, and however often, adds them once. The
// trace that is recorded then begins with them.
TEST_F(SessionFiguresTest, WhatGrewIsInTheSmallestBudgetOnce) {
  constexpr std::int64_t kGrown = 40 * kMib;
  const auto smallest = [this]() -> std::int64_t {
    const std::int64_t told = get("/v1/status").body["smallest_feasible_budget_bytes"];
    EXPECT_EQ(report()["smallest_feasible_budget_bytes"], told);
    return told;
  };
  trace_.base_bytes = 8 * kMib;
  beginWithReport(4 * plain_bytes_ + (std::int64_t{1} << 30));
  void* base = session_->trained().memory().allocate(8 * kMib, allocator::Stream::kDefault);
  for (int i = 0; i < 4; ++i) step();
  const std::int64_t before = smallest();
  void* grown = session_->trained().memory().allocate(kGrown, allocator::Stream::kDefault);
  for (int i = 0; i < 3; ++i) step();
  // 40 MiB, 3 % of them, what rounding to a MiB makes
  const std::int64_t after = smallest();
  EXPECT_GE(after, before + kGrown);
  EXPECT_LE(after, before + kGrown + 3 * kMib);
  scheduler::Trace larger = trace_;
  larger.base_bytes += kGrown;
  step(larger);
  EXPECT_LE(std::abs(smallest() - after), kMib);
  const Answered refused = post("/v1/budget", {{"budget", 1}});
  ASSERT_EQ(refused.status, 409) << refused.body;
  const std::int64_t told = refused.body["smallest_feasible_budget_bytes"];
  EXPECT_LE(std::abs(told - after), kMib);
  static_cast<void>(wholeCurve([] {}));
  EXPECT_EQ(smallest(), told);
  session_->trained().memory().deallocate(grown);
  session_->trained().memory().deallocate(base);
}

// Nor does it take a budget to count a copy of the weights that is made late.
TEST_F(SessionFiguresTest, WhatGrewIsInTheSmallestBudgetOfAMeasuredRun) {
  constexpr std::int64_t kGrown = 40 * kMib;
  trace_.base_bytes = 8 * kMib;
  begin();
  const auto smallest = [this]() -> std::int64_t {
    return get("/v1/status").body["smallest_feasible_budget_bytes"];
  };
  void* base = session_->trained().memory().allocate(8 * kMib, allocator::Stream::kDefault);
  for (int i = 0; i < 5; ++i) step();
  const std::int64_t before = smallest();
  void* grown = session_->trained().memory().allocate(kGrown, allocator::Stream::kDefault);
  for (int i = 0; i < 3; ++i) step();
  EXPECT_GE(smallest(), before + kGrown);
  EXPECT_LE(smallest(), before + kGrown + 3 * kMib);
  session_->trained().memory().deallocate(grown);
  session_->trained().memory().deallocate(base);
}

// The line at the end has the cost of the smallest budget, though 40 MiB more live by then: beside
// them the same steps have the same room. Blocks of the trace are not allocated here; one that is
// four times as large stands for the run's peak, without which no lower budget would be named.
TEST_F(SessionFiguresTest, WhatGrewTakesNoCostFromTheLastLine) {
  config_.log_level = "info";
  trace_.base_bytes = 8 * kMib;
  begin();
  void* base = session_->trained().memory().allocate(8 * kMib, allocator::Stream::kDefault);
  const StepStart first = session_->beginStep();
  session_->trained().memory().deallocate(
      session_->trained().memory().allocate(4 * plain_bytes_, allocator::Stream::kDefault));
  end(first);
  for (int i = 0; i < 4; ++i) step();
  // The planning thread answers once it has foreseen what budgets would cost.
  ASSERT_EQ(post("/v1/budget", {{"budget", 1}}).status, 409);
  const auto smallest = [this]() -> std::int64_t {
    return get("/v1/status").body["smallest_feasible_budget_bytes"];
  };
  const std::int64_t before = smallest();
  void* grown = session_->trained().memory().allocate(40 * kMib, allocator::Stream::kDefault);
  for (int i = 0; i < 3; ++i) step();
  const std::int64_t after = smallest();
  EXPECT_GE(after, before + 40 * kMib);
  session_->trained().memory().deallocate(grown);
  session_->trained().memory().deallocate(base);
  testing::internal::CaptureStderr();
  session_->shutdown();
  const std::string said = testing::internal::GetCapturedStderr();
  std::smatch found;
  ASSERT_TRUE(std::regex_search(said, found,
                                std::regex("; the smallest: (\\d+)MiB \\((\\+\\d+ % time|each step "
                                           "writes to disk)\\) \\[EB03\\]")))
      << said;
  EXPECT_EQ(std::stoll(found[1]) * kMib, after);
}

TEST_F(SessionFiguresTest, AStepsTimeIsOneFigure) {
  beginWithReport(plain_bytes_ - saved_bytes_ / 4);
  for (int i = 0; i < 30; ++i) step();
  static_cast<void>(wholeCurve([] {}));
  const double seconds = get("/v1/status").body["step_seconds"]["median"];
  EXPECT_GT(seconds, 0);
  EXPECT_EQ(get("/v1/curve").body["present"]["step_seconds"], seconds);
  EXPECT_EQ(report()["step_seconds"]["median"], seconds);
}

TEST_F(SessionFiguresTest, ThePredictedSlowdownIsOneFigure) {
  beginWithReport(plain_bytes_ + kMib);
  for (int i = 0; i < 3; ++i) step();
  const std::int64_t budget = plain_bytes_ - saved_bytes_ / 4;
  const Answered answered = post("/v1/budget", {{"budget", budget}});
  ASSERT_EQ(answered.status, 200) << answered.body;
  const double more = answered.body["overhead_ratio"];
  EXPECT_GT(more, 0);
  step();
  step();
  EXPECT_EQ(get("/v1/status").body["plan"]["overhead_ratio"], more);
  EXPECT_EQ(get("/v1/plan").body["plan"]["overhead_ratio"], more);
  EXPECT_EQ(report()["plan"]["overhead_ratio"], more);
  EXPECT_NEAR(value(series(), "ebbtide_plan_overhead_ratio"), more, 1e-6 * more);  // of its text
}

}  // namespace
}  // namespace ebbtide::plugin
