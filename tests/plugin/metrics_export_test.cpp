#include "runtime/output/metrics_export.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

namespace ebbtide::plugin {
namespace {

class MetricsExportTest : public testing::Test {
 protected:
  bool has(const std::string& text) const {
    return exported_.render(metrics::Format::kText).find(text) != std::string::npos;
  }
  static std::string folder() {
    return testing::TempDir() + "ebbtide-export-" + std::to_string(::getpid()) + "-" +
           testing::UnitTest::GetInstance()->current_test_info()->name();
  }

  std::vector<std::string> warned_;
  CurrentConfig config_;
  SessionGuard guard_;
  MetricsExport exported_{config_, "2.0",
                          [this](const std::string& text) { warned_.push_back(text); },
                          [](const std::string&) {}};
  RunFigures figures_;
  allocator::Statistics memory_;
};

TEST_F(MetricsExportTest, ThePlanInForceIsExportedUntilThereIsNone) {
  const SessionGuard::Held held = guard_.hold();
  auto plan = std::make_shared<Plan>();
  plan->origin.planner = "greedy";
  for (const std::shared_ptr<const Plan>& now : {std::shared_ptr<const Plan>(plan), {}}) {
    exported_.noteStep(
        held, {.memory = memory_, .figures = figures_, .plan = now, .shown = now, .seconds = 1});
    EXPECT_EQ(has("planner=\"greedy\""), now != nullptr);
  }
}

// A step of another program came last, which has no plan.
TEST_F(MetricsExportTest, ThePlanThatIsToldIsNotAlwaysTheLastSteps) {
  const SessionGuard::Held held = guard_.hold();
  auto plan = std::make_shared<Plan>();
  plan->origin.planner = "greedy";
  plan->predicted.overhead_ratio = 0.25;
  exported_.noteStep(
      held, {.memory = memory_, .figures = figures_, .plan = nullptr, .shown = plan, .seconds = 1});
  EXPECT_TRUE(has("planner=\"greedy\""));
  EXPECT_TRUE(has("ebbtide_plan_overhead_ratio{local_rank=\"0\",rank=\"0\"} 0.25"));
  EXPECT_TRUE(has("ebbtide_plan_predicted_peak_bytes{local_rank=\"0\",rank=\"0\"} Nan"));
}

TEST_F(MetricsExportTest, ASmallestBudgetThatIsKnownNoMoreIsNoFigure) {
  const std::string name = "ebbtide_memory_smallest_feasible_budget_bytes";
  exported_.noteSmallestBudget(1 << 20);
  EXPECT_TRUE(has(name + "{local_rank=\"0\",rank=\"0\"} 1048576"));
  exported_.noteSmallestBudget(0);
  EXPECT_TRUE(has(name + "{local_rank=\"0\",rank=\"0\"} Nan"));
}

// They name none in the step that comes then.
TEST_F(MetricsExportTest, StagesStayWhereAStepNamesNone) {
  const SessionGuard::Held held = guard_.hold();
  exported_.noteStages(held, {0, 2});
  StepSummary summary;
  summary.recorded = true;
  exported_.learnStages(held, summary);
  EXPECT_EQ(exported_.stages(held), (std::vector<std::int32_t>{0, 2}));
  EXPECT_TRUE(has("stage=\"0,2\""));
}

TEST_F(MetricsExportTest, NoFileIsDueWhereNoneIsAskedFor) {
  exported_.openFile();
  EXPECT_EQ(exported_.nextFile(), MetricsExport::Time::max());
  exported_.writeFile(/*ends=*/false);
  EXPECT_TRUE(warned_.empty());
}

// A folder cannot be written as a file; what is said of it is said once.
TEST_F(MetricsExportTest, AFileThatCannotBeWrittenIsToldOnce) {
  std::filesystem::create_directories(folder() + "/series.prom/inside");
  Config config;
  config.files.text_file = folder() + "/series.prom";
  config_.change(config);
  exported_.openFile();
  EXPECT_LT(exported_.nextFile(), MetricsExport::Time::max());
  for (int i = 0; i < 2; ++i) exported_.writeFile(/*ends=*/false);
  EXPECT_EQ(warned_.size(), 1U);
  std::filesystem::remove_all(folder());
}

}  // namespace
}  // namespace ebbtide::plugin
