// Whoever asks a session for a figure of its run is told the same one.
#include <algorithm>
#include <cmath>
#include <regex>
#include <set>

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
      std::ifstream file(config_.files.report);
      report = json::parse(file);
      return report["steps"] == steps;
    }));
    return report;
  }
  void beginWithReport(std::int64_t budget) {
    std::filesystem::create_directories(folder_);
    config_.files.report = (folder_ / "report.json").string();
    begin(budget);
  }
};

// The recorded GPT step has more lower sets than that planner lists: another one answers.
TEST_F(SessionFiguresTest, WhoAnswersForAnotherPlannerIsNamedWithTheReason) {
  config_.planning.planner = "kusumoto-exact";
  config_.planning.work.reset();  // it has no such option
  config_.log_level = "info";
  testing::internal::CaptureStderr();
  beginWithReport(plain_bytes_ - saved_bytes_ / 4);
  std::shared_ptr<const Plan> plan;
  ASSERT_TRUE(comesTrue([&] { return (plan = step()) != nullptr; }));
  const json status = get("/v1/status").body["plan"], report = this->report()["plan"];
  const std::string said = testing::internal::GetCapturedStderr();
  EXPECT_EQ(plan->origin.asked, "kusumoto-exact");
  EXPECT_EQ(plan->origin.planner.rfind("kusumoto-approx", 0), 0u) << plan->origin.planner;
  EXPECT_NE(plan->origin.note.find("lower sets that kusumoto-exact lists"), std::string::npos);
  const std::string by = "plan by " + plan->origin.planner +
                         " (kusumoto-exact was asked: " + plan->origin.note + ") in ";
  EXPECT_NE(said.find(by), std::string::npos) << said;
  for (const json& told : {status, report}) {
    EXPECT_EQ(told["asked"], "kusumoto-exact") << told;
    EXPECT_EQ(told["planner"], plan->origin.planner) << told;
    EXPECT_EQ(told["note"], plan->origin.note) << told;
  }
}

// The optimizer's state, 8 MiB, comes with the first step's update. The second step begins with it,
// the third one too: its begin settles the base.
TEST_F(SessionFiguresTest, NoSmallestBudgetIsToldUntilTheBaseIsSettled) {
  const auto tells = [this] {
    const json told = get("/v1/status").body["smallest_feasible_budget_bytes"];
    EXPECT_EQ(report()["smallest_feasible_budget_bytes"], told.is_null() ? json(0) : told);
    EXPECT_EQ(report()["needed_bytes"] > 0, !told.is_null());
    const double exported = value(series(), "ebbtide_memory_smallest_feasible_budget_bytes");
    EXPECT_TRUE(told.is_null() ? std::isnan(exported) : exported == told) << exported;
    EXPECT_EQ(get("/v1/curve").body["state"] == "none", told.is_null());
    const Answered refused = post("/v1/budget", {{"budget", 1}});
    EXPECT_EQ(refused.body["code"], told.is_null() ? "EB127" : "EB128");
    return !told.is_null();
  };
  trace_.base_bytes = kMib;
  beginWithReport(4 * plain_bytes_ + (std::int64_t{1} << 30));
  void* base = session_->trained().memory().allocate(kMib, allocator::Stream::kDefault);
  step();
  void* state = session_->trained().memory().allocate(8 * kMib, allocator::Stream::kDefault);
  trace_.base_bytes += 8 * kMib;
  EXPECT_FALSE(tells());
  step();
  EXPECT_FALSE(tells());
  step();
  EXPECT_TRUE(tells());
  session_->trained().memory().deallocate(state);
  session_->trained().memory().deallocate(base);
}

// `ebbtide fit` ends the process where the next step would begin.
TEST_F(SessionFiguresTest, OfTheStepsThatWereAskedForTheSmallestBudgetIsTold) {
  config_.end_after = Config::EndAfter{.folder = folder_.string(), .steps = 1};
  std::filesystem::create_directories(folder_);
  beginWithReport(4 * plain_bytes_ + (std::int64_t{1} << 30));
  step();
  EXPECT_GT(report()["smallest_feasible_budget_bytes"], 0);
  EXPECT_GT(report()["needed_bytes"], 0);
}

// A script that ends before the steps that `ebbtide fit` asked for. The update's 8 MiB live
// after its only step: the floor lacks them, and the figure adds them.
TEST_F(SessionFiguresTest, OfAScriptOfOneStepTheSmallestBudgetIsTold) {
  config_.end_after = Config::EndAfter{.folder = folder_.string(), .steps = 4};
  std::filesystem::create_directories(folder_);
  beginWithReport(4 * plain_bytes_ + (std::int64_t{1} << 30));
  step();
  EXPECT_EQ(report()["needed_bytes"], 0);
  const std::int64_t of_step = session_->budgets().verdict().floorBytes();
  void* state = session_->trained().memory().allocate(8 * kMib, allocator::Stream::kDefault);
  session_->shutdown();
  EXPECT_EQ(report()["needed_bytes"], of_step + 8 * kMib);
  EXPECT_GT(report()["smallest_feasible_budget_bytes"], of_step + 8 * kMib);
  session_->trained().memory().deallocate(state);
}

// The second one begins with those.
TEST_F(SessionFiguresTest, OfAScriptOfTwoStepsTheSmallestBudgetIsTold) {
  config_.end_after = Config::EndAfter{.folder = folder_.string(), .steps = 4};
  std::filesystem::create_directories(folder_);
  beginWithReport(4 * plain_bytes_ + (std::int64_t{1} << 30));
  step();
  void* state = session_->trained().memory().allocate(8 * kMib, allocator::Stream::kDefault);
  trace_.base_bytes += 8 * kMib;
  step();
  EXPECT_EQ(report()["needed_bytes"], 0);
  const std::int64_t of_step = session_->budgets().verdict().floorBytes();
  session_->shutdown();
  EXPECT_EQ(report()["needed_bytes"], of_step);
  EXPECT_GT(report()["smallest_feasible_budget_bytes"], of_step);
  session_->trained().memory().deallocate(state);
}

// Who interrupts a training after its first step is told no budget that lacks the second one's.
TEST_F(SessionFiguresTest, OfATrainingThatEndsAfterOneStepNoSmallestBudgetIsTold) {
  beginWithReport(4 * plain_bytes_ + (std::int64_t{1} << 30));
  step();
  session_->shutdown();
  EXPECT_EQ(report()["smallest_feasible_budget_bytes"], 0);
}

// Nor do steps follow it, whoever asks.
TEST_F(SessionFiguresTest, WhilePausedNoPlanIsTold) {
  beginWithReport(plain_bytes_ - saved_bytes_ / 4);
  ASSERT_TRUE(comesTrue([&] { return step() != nullptr; }));
  EXPECT_GT(value(series(), "ebbtide_plan_overhead_ratio"), 0);
  ASSERT_EQ(post("/v1/pause", {{"paused", true}, {"force", true}}).status, 200);
  step();
  EXPECT_TRUE(get("/v1/status").body["plan"].is_null()) << get("/v1/status").body["plan"];
  EXPECT_TRUE(report()["plan"].is_null()) << report()["plan"];
  EXPECT_EQ(value(series(), "ebbtide_plan_overhead_ratio"), 0);
}

// A program that catches the refusal goes on with something smaller.
TEST_F(SessionFiguresTest, WhatWasRefusedIsNoSmallestBudgetOfWhatFollows) {
  beginWithReport(8 * kMib);
  for (int i = 0; i < 2 && !isRefused(); ++i) {
    const StepStart start = session_->beginStep();
    void* block = allocateOver(8 * kMib);
    end(start);
    session_->trained().memory().deallocate(block);
  }
  session_->beginStep();
  ASSERT_TRUE(isRefused());
  EXPECT_GT(value(series(), "ebbtide_memory_smallest_feasible_budget_bytes"), 0);
  raiseRefusal();
  session_->course().planFor(/*first_op_signature=*/1, /*trains=*/true);
  EXPECT_EQ(get("/v1/status").body["smallest_feasible_budget_bytes"], json());
  EXPECT_EQ(report()["smallest_feasible_budget_bytes"], 0);
  EXPECT_TRUE(std::isnan(value(series(), "ebbtide_memory_smallest_feasible_budget_bytes")));
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

// Steps that hold the budget without a plan are no word on those that follow it.
TEST_F(SessionFiguresTest, ARunThatAsksWhetherABudgetIsHeldWaitsForItsPlan) {
  std::filesystem::create_directories(folder_);
  config_.end_after = Config::EndAfter{.folder = folder_.string(), .steps = 8};
  begin(plain_bytes_ - saved_bytes_ / 4);
  for (int i = 0; i < 3; ++i) {
    step();
    session_->course().awaitPlan();
  }
  EXPECT_NE(step(), nullptr);
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

// A budget that was asked for went over, and was taken back. What follows takes 4 MiB.
TEST_F(SessionFiguresTest, TheLastLineHasWhatWentOverTheLastBudget) {
  config_.log_level = "info";
  beginWithReport(4 * plain_bytes_ + (std::int64_t{1} << 30));
  for (int i = 0; i < 3; ++i) step();
  const std::int64_t asked = plain_bytes_ - saved_bytes_ / 2 + 8 * kMib;
  ASSERT_EQ(post("/v1/budget", {{"budget", asked}}).status, 200);
  const StepStart over = session_->beginStep();
  void* block = allocateOver(asked);
  end(over);
  session_->trained().memory().deallocate(block);
  const StepStart back = session_->beginStep();
  session_->trained().memory().deallocate(
      session_->trained().memory().allocate(4 * kMib, allocator::Stream::kDefault));
  end(back);
  EXPECT_GT(report()["budget_violations"], 0);
  testing::internal::CaptureStderr();
  session_->shutdown();
  const std::string said = testing::internal::GetCapturedStderr();
  EXPECT_NE(said.find(", never over it"), std::string::npos) << said;
}

// 24 steps of a program that needs half as much, and 8 of the larger one, whose plan costs more. Of
// 94 and 172 MiB either fits 88.
TEST_F(SessionFiguresTest, ThePromisedSlowdownIsThatOfThePlanThatIsTold) {
  beginWithReport(plain_bytes_ + kMib);
  for (int i = 0; i < 8; ++i) {
    for (int j = 0; j < 3; ++j) step(shorter(2));
    step();
  }
  const Answered answered = post("/v1/budget", {{"budget", 88 * kMib}});
  ASSERT_EQ(answered.status, 200) << answered.body;
  const json more = answered.body["overhead_ratio"];
  const scheduler::Trace next = shorter(2);  // as the turns foretell
  const std::shared_ptr<const Plan> plan = step(next);
  ASSERT_NE(plan, nullptr);
  EXPECT_EQ(plan->signature, next.signature);
  EXPECT_GT(more, 0);
  EXPECT_EQ(more, plan->predicted.overhead_ratio);
  EXPECT_EQ(get("/v1/status").body["plan"]["overhead_ratio"], more);
  EXPECT_EQ(report()["plan"]["overhead_ratio"], more);
}

// Batches of a loader whose last one is short: seven steps that have a plan, and one of another
// program that fits without.
class SessionTurnsFiguresTest : public SessionFiguresTest {
 protected:
  struct Figures {
    double step_seconds = 0, slowdown = 0;
    std::int64_t from_step = 0;
  };

  void SetUp() override {
    config_.log_level = "info";
    beginWithReport(plain_bytes_ - saved_bytes_ / 4);
    ASSERT_TRUE(comesTrue([&] { return step() != nullptr; }));
    // One of the plan was waited for: its course has begun with this step.
    planned_from_ = get("/v1/status").body["steps"];
  }
  void stepWithAPlan() {
    step();
    of_plan_.insert(get("/v1/status").body["steps"].get<std::int64_t>());
  }
  void stepOfTheShortBatch() {
    StepStart start = session_->beginStep();
    start.plan = nullptr;  // as its first op tells
    const scheduler::Trace trace = shorter(64);
    end(start, /*recorded=*/true, &trace);
  }
  // By what each step took: the upper one of two.
  double medianOfPlannedSteps() {
    const json history = get("/v1/status").body["history"];
    std::vector<double> seconds;
    for (std::size_t i = 0; i < history["steps"].size(); ++i) {
      if (of_plan_.contains(history["steps"][i])) seconds.push_back(history["step_seconds"][i]);
    }
    std::sort(seconds.begin(), seconds.end());
    return seconds.at(seconds.size() / 2);
  }
  static Figures of(const json& told) {
    return {.step_seconds = told["step_seconds"]["median"],
            .slowdown = told["plan"]["overhead_ratio"],
            .from_step = told["plan"]["active_from_step"]};
  }

  std::int64_t planned_from_ = 0;
  std::set<std::int64_t> of_plan_;
};

TEST_F(SessionTurnsFiguresTest, AShortLastBatchChangesNoFigure) {
  of_plan_.insert(planned_from_);
  for (int turn = 0; turn < 3; ++turn) {
    for (int i = 0; i < 7; ++i) stepWithAPlan();
    stepOfTheShortBatch();
    const Figures status = of(get("/v1/status").body), report = of(this->report());
    EXPECT_EQ(status.step_seconds, medianOfPlannedSteps());
    EXPECT_EQ(report.step_seconds, status.step_seconds);
    EXPECT_EQ(get("/v1/curve").body["present"]["step_seconds"], status.step_seconds);
    EXPECT_GT(status.slowdown, 0);
    EXPECT_EQ(report.slowdown, status.slowdown);
    const json plan = get("/v1/plan").body["plan"];
    EXPECT_EQ(plan["overhead_ratio"], status.slowdown);
    EXPECT_EQ(plan["active_from_step"], status.from_step);
    EXPECT_EQ(report.from_step, status.from_step);
    EXPECT_NEAR(value(series(), "ebbtide_plan_overhead_ratio"), status.slowdown,
                1e-6 * status.slowdown);  // of its text
  }
}

}  // namespace
}  // namespace ebbtide::plugin
