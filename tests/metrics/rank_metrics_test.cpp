#include "ebbtide/metrics/rank_metrics.hpp"

#include <gtest/gtest.h>
#include <sys/wait.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace ebbtide::metrics {
namespace {

// True when the text has exactly this line.
bool hasLine(const std::string& text, const std::string& line) {
  return ("\n" + text).find("\n" + line + "\n") != std::string::npos;
}

TEST(RankMetricsTest, EverySeriesStartsAtZeroWithHelpAndType) {
  const RankMetrics metrics({.rank = 3, .local_rank = 1});
  const std::string text = metrics.render();
  const std::vector<std::pair<std::string, std::string>> series = {
      {"ebbtide_memory_budget_bytes", "gauge"},
      {"ebbtide_memory_peak_bytes", "gauge"},
      {"ebbtide_memory_allocated_bytes", "gauge"},
      {"ebbtide_memory_mapped_bytes", "gauge"},
      {"ebbtide_plan_predicted_peak_bytes", "gauge"},
      {"ebbtide_recomputed_ops_total", "counter"},
      {"ebbtide_recompute_seconds_total", "counter"},
      {"ebbtide_spilled_bytes_total", "counter"},
      {"ebbtide_offloaded_bytes_total", "counter"},
      {"ebbtide_budget_violations_total", "counter"},
  };
  for (const auto& [name, type] : series) {
    EXPECT_TRUE(hasLine(text, name + R"({local_rank="1",rank="3"} 0)")) << name << "\n" << text;
    EXPECT_TRUE(hasLine(text, "# TYPE " + name + " " + type)) << name;
    EXPECT_NE(text.find("# HELP " + name + " "), std::string::npos) << name;
  }
  const std::string step = "ebbtide_step_duration_seconds";
  EXPECT_TRUE(hasLine(text, "# TYPE " + step + " histogram"));
  EXPECT_TRUE(hasLine(text, step + R"(_count{local_rank="1",rank="3"} 0)"));
  EXPECT_TRUE(hasLine(text, step + R"(_sum{local_rank="1",rank="3"} 0)"));
}

TEST(RankMetricsTest, GaugesHoldTheLastValueExactly) {
  RankMetrics metrics({});
  metrics.setBudgetBytes(1);
  metrics.setBudgetBytes(85'899'345'920);             // 80 GiB
  metrics.setPeakBytes((std::int64_t{1} << 53) - 1);  // the last odd integer of a double
  metrics.setAllocatedBytes(7);
  metrics.setMappedBytes(8);
  metrics.setPredictedPeakBytes(9);
  const std::string text = metrics.render();
  const std::string labels = R"({local_rank="0",rank="0"} )";
  EXPECT_TRUE(hasLine(text, "ebbtide_memory_budget_bytes" + labels + "85899345920"));
  EXPECT_TRUE(hasLine(text, "ebbtide_memory_peak_bytes" + labels + "9007199254740991"));
  EXPECT_TRUE(hasLine(text, "ebbtide_memory_allocated_bytes" + labels + "7"));
  EXPECT_TRUE(hasLine(text, "ebbtide_memory_mapped_bytes" + labels + "8"));
  EXPECT_TRUE(hasLine(text, "ebbtide_plan_predicted_peak_bytes" + labels + "9"));
}

TEST(RankMetricsTest, NoBudgetIsInfinite) {
  RankMetrics metrics({});
  metrics.setBudgetBytes(INT64_MAX);
  EXPECT_TRUE(
      hasLine(metrics.render(), R"(ebbtide_memory_budget_bytes{local_rank="0",rank="0"} +Inf)"));
}

TEST(RankMetricsTest, CountersNeverFall) {
  RankMetrics metrics({});
  metrics.addSpilledBytes(5);
  metrics.addSpilledBytes(-3);
  metrics.addOffloadedBytes(7);
  metrics.addOffloadedBytes(-1);
  EXPECT_TRUE(
      hasLine(metrics.render(), R"(ebbtide_spilled_bytes_total{local_rank="0",rank="0"} 5)"));
  EXPECT_TRUE(
      hasLine(metrics.render(), R"(ebbtide_offloaded_bytes_total{local_rank="0",rank="0"} 7)"));
}

TEST(RankMetricsTest, StepsFallIntoCumulativeBuckets) {
  RankMetrics metrics({});
  metrics.addStep(0.02);  // above 0.01, at most 0.03
  metrics.addStep(0.25);  // at most 0.3
  metrics.addStep(0.25);  // at most 0.3
  metrics.addStep(1000);  // above all
  const std::string text = metrics.render();
  const auto bucket = [](const std::string& bound) {
    return R"(ebbtide_step_duration_seconds_bucket{local_rank="0",rank="0",le=")" + bound +
           R"("} )";
  };
  EXPECT_TRUE(hasLine(text, bucket("0.01") + "0")) << text;
  EXPECT_TRUE(hasLine(text, bucket("0.03") + "1"));
  EXPECT_TRUE(hasLine(text, bucket("0.1") + "1"));
  EXPECT_TRUE(hasLine(text, bucket("0.3") + "3"));
  EXPECT_TRUE(hasLine(text, bucket("300") + "3"));
  EXPECT_TRUE(hasLine(text, bucket("+Inf") + "4"));
  // 0.02 + 0.25 + 0.25 + 1000
  EXPECT_NE(text.find(R"(_sum{local_rank="0",rank="0"} 1000.52)"), std::string::npos);
}

TEST(RankMetricsTest, ConcurrentUpdatesAreAllCounted) {
  RankMetrics metrics({});
  std::vector<std::thread> threads;
  for (int thread = 0; thread < 4; ++thread) {
    threads.emplace_back([&metrics] {
      for (int i = 0; i < 5000; ++i) {
        metrics.addRecomputed(2, 0.5);
        metrics.addSpilledBytes(3);
        metrics.addBudgetViolations(1);
        metrics.addStep(0.5);
        metrics.setAllocatedBytes(i);
        EXPECT_TRUE(i % 500 != 0 || !metrics.render().empty());
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  const std::string text = metrics.render();
  const std::string labels = R"({local_rank="0",rank="0"} )";
  // 4 threads x 5000 rounds = 20000; every sum is an exact double.
  EXPECT_TRUE(hasLine(text, "ebbtide_recomputed_ops_total" + labels + "40000"));
  EXPECT_TRUE(hasLine(text, "ebbtide_recompute_seconds_total" + labels + "10000"));
  EXPECT_TRUE(hasLine(text, "ebbtide_spilled_bytes_total" + labels + "60000"));
  EXPECT_TRUE(hasLine(text, "ebbtide_budget_violations_total" + labels + "20000"));
  EXPECT_TRUE(hasLine(text, "ebbtide_step_duration_seconds_count" + labels + "20000"));
  EXPECT_TRUE(hasLine(text, "ebbtide_memory_allocated_bytes" + labels + "4999"));
}

TEST(RankMetricsTest, PromtoolAcceptsTheText) {
  if (std::system("command -v promtool >/dev/null 2>&1") != 0) {
    GTEST_SKIP() << "promtool is not installed (Debian package prometheus)";
  }
  RankMetrics metrics({.rank = 1, .local_rank = 1});
  metrics.setBudgetBytes(INT64_MAX);
  metrics.addStep(0.2);
  FILE* promtool = ::popen("promtool check metrics", "w");
  ASSERT_NE(promtool, nullptr);
  std::fputs(metrics.render().c_str(), promtool);
  // 0: fine; 1: not parsable; 3: against the naming conventions.
  EXPECT_EQ(WEXITSTATUS(::pclose(promtool)), 0);
}

}  // namespace
}  // namespace ebbtide::metrics
