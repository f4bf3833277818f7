#include "ebbtide/metrics/rank_metrics.hpp"

#include <gtest/gtest.h>
#include <sys/wait.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <set>
#include <string>
#include <thread>
#include <vector>

namespace ebbtide::metrics {
namespace {

const RankLabels kThird{.rank = 3, .local_rank = 1, .job_id = "night"};
constexpr const char* kThirdLabels = R"({job_id="night",local_rank="1",rank="3"} )";
constexpr const char* kLabels = R"({local_rank="0",rank="0"} )";

// True when the text has exactly this line.
bool hasLine(const std::string& text, const std::string& line) {
  return ("\n" + text).find("\n" + line + "\n") != std::string::npos;
}

TEST(RankMetricsTest, ALateRankIsThatOfAllSeries) {
  RankMetrics metrics({.rank = 0, .local_rank = 0, .job_id = "pid-1"});
  metrics.setBudgetBytes(7);
  metrics.setRank(kThird);
  const std::string text = metrics.render();
  EXPECT_TRUE(hasLine(text, std::string("ebbtide_memory_budget_bytes") + kThirdLabels + "7"));
  EXPECT_EQ(text.find("rank=\"0\""), std::string::npos);
}

TEST(RankMetricsTest, EverySeriesStartsAtZeroWithHelpAndType) {
  const RankMetrics metrics(kThird);
  const std::string text = metrics.render();
  std::set<std::string> names;
  const auto expectSeries = [&](const std::string& name, const char* type, const char* value) {
    EXPECT_TRUE(names.insert(name).second) << name << " is there twice";
    EXPECT_TRUE(hasLine(text, name + kThirdLabels + value)) << name << "\n" << text;
    EXPECT_TRUE(hasLine(text, "# TYPE " + name + " " + type)) << name;
    EXPECT_NE(text.find("# HELP " + name + " "), std::string::npos) << name;
  };
  for (std::size_t i = 0; i < kGauges; ++i) {
    const auto gauge = static_cast<Gauge>(i);
    expectSeries(textOf(gauge).name, "gauge", startsUnknown(gauge) ? "Nan" : "0");
  }
  for (std::size_t i = 0; i < kCounters; ++i)
    expectSeries(textOf(static_cast<Counter>(i)).name, "counter", "0");
  const std::string step = "ebbtide_step_duration_seconds";
  EXPECT_TRUE(hasLine(text, "# TYPE " + step + " histogram"));
  EXPECT_TRUE(hasLine(text, step + "_count" + kThirdLabels + "0"));
  EXPECT_TRUE(hasLine(text, step + "_sum" + kThirdLabels + "0"));
  EXPECT_TRUE(hasLine(text,
                      "ebbtide_op_recompute_seconds_total"
                      R"({job_id="night",local_rank="1",op="other",rank="3"} 0)"));
}

TEST(RankMetricsTest, GaugesHoldTheLastValueExactly) {
  RankMetrics metrics({});
  metrics.setBudgetBytes(1);
  metrics.setBudgetBytes(85'899'345'920);                            // 80 GiB
  metrics.setBytes(Gauge::kPeakBytes, (std::int64_t{1} << 53) - 1);  // the last odd one of a double
  metrics.set(Gauge::kFragmentationRatio, 0.25);
  const std::string text = metrics.render();
  EXPECT_TRUE(hasLine(text, std::string("ebbtide_memory_budget_bytes") + kLabels + "85899345920"));
  EXPECT_TRUE(
      hasLine(text, std::string("ebbtide_memory_peak_bytes") + kLabels + "9007199254740991"));
  EXPECT_TRUE(hasLine(text, std::string("ebbtide_memory_fragmentation_ratio") + kLabels + "0.25"));
}

TEST(RankMetricsTest, NoBudgetIsInfinite) {
  RankMetrics metrics({});
  metrics.setBudgetBytes(INT64_MAX);
  EXPECT_TRUE(
      hasLine(metrics.render(), std::string("ebbtide_memory_budget_bytes") + kLabels + "+Inf"));
}

TEST(RankMetricsTest, CountersNeverFall) {
  RankMetrics metrics({});
  metrics.add(Counter::kSpilledBytes, 5);
  metrics.add(Counter::kSpilledBytes, -3);
  metrics.raiseTo(Counter::kAllocations, 9);
  metrics.raiseTo(Counter::kAllocations, 7);  // another allocator, that has counted less
  const std::string text = metrics.render();
  EXPECT_TRUE(hasLine(text, std::string("ebbtide_spilled_bytes_total") + kLabels + "5"));
  EXPECT_TRUE(hasLine(text, std::string("ebbtide_allocations_total") + kLabels + "9"));
}

TEST(RankMetricsTest, StepsFallIntoCumulativeBuckets) {
  RankMetrics metrics({});
  metrics.addStep(0.02);  // above 0.01, at most 0.03
  metrics.addStep(0.3);   // at most 0.3
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
  // 0.02 + 0.3 + 0.25 + 1000
  EXPECT_NE(text.find(R"(_sum{local_rank="0",rank="0"} 1000.57)"), std::string::npos);
}

TEST(RankMetricsTest, WhatIsLearntLaterIsALabelOfOneSeries) {
  RankMetrics metrics(kThird);
  EXPECT_TRUE(hasLine(metrics.render(), std::string("ebbtide_rank_info") + kThirdLabels + "1"));
  metrics.setStages({0});
  metrics.setStages({0, 2});
  metrics.setGpu(1, "GPU-0a");
  const std::string text = metrics.render();
  EXPECT_TRUE(hasLine(
      text,
      R"(ebbtide_rank_info{UUID="GPU-0a",gpu="1",job_id="night",local_rank="1",rank="3",stage="0,2"} 1)"))
      << text;
  EXPECT_EQ(text.find("ebbtide_rank_info{"), text.rfind("ebbtide_rank_info{"));
}

TEST(RankMetricsTest, APlanThatIsInForceIsThere) {
  RankMetrics metrics({});
  EXPECT_EQ(metrics.render().find("ebbtide_plan_info{"), std::string::npos);
  metrics.setPlan("auto", true);
  metrics.setPlan("kusumoto", false);
  EXPECT_TRUE(hasLine(
      metrics.render(),
      R"(ebbtide_plan_info{feasible="false",local_rank="0",planner="kusumoto",rank="0"} 1)"));
  metrics.setPlan("", false);
  EXPECT_EQ(metrics.render().find("ebbtide_plan_info{"), std::string::npos);
}

// Its line, up to the value.
std::string replaysOf(const std::string& op) {
  return R"(ebbtide_op_recompute_seconds_total{local_rank="0",op=")" + op + R"(",rank="0"} )";
}

TEST(RankMetricsTest, ReplaysCountByOperatorAndInAll) {
  RankMetrics metrics({});
  const std::size_t gelu = metrics.opNumber("aten::gelu");
  metrics.addReplay(gelu, 500'000'000);
  metrics.addReplay(metrics.opNumber("aten::mm"), 250'000'000);
  metrics.addReplay(gelu, 500'000'000);
  metrics.noteStepEnd();
  const std::string text = metrics.render();
  EXPECT_TRUE(hasLine(text, replaysOf("aten::gelu") + "1")) << text;
  EXPECT_TRUE(hasLine(text, replaysOf("aten::mm") + "0.25"));
  EXPECT_TRUE(hasLine(text, replaysOf("other") + "0"));
  EXPECT_TRUE(hasLine(text, std::string("ebbtide_recomputed_ops_total") + kLabels + "3"));
  EXPECT_TRUE(hasLine(text, std::string("ebbtide_recompute_seconds_total") + kLabels + "1.25"));
}

TEST(RankMetricsTest, WhatAPlanIsAboutToReplayStartsAtZero) {
  RankMetrics metrics({});
  std::vector<std::string> planned;
  for (int i = 0; i < 25; ++i) planned.push_back("op" + std::to_string(i));
  metrics.addReplay(metrics.opNumber("before"), 1'000'000'000);
  metrics.noteStepEnd();
  metrics.expectReplays(planned);
  metrics.expectReplays(planned);
  std::string text = metrics.render();
  EXPECT_TRUE(hasLine(text, replaysOf("before") + "1")) << text;
  // Of 20 names one is taken: op0 to op18 get the rest.
  EXPECT_TRUE(hasLine(text, replaysOf("op0") + "0")) << text;
  EXPECT_TRUE(hasLine(text, replaysOf("op18") + "0"));
  EXPECT_EQ(text.find("op=\"op19\""), std::string::npos);
  metrics.addReplay(metrics.opNumber("op18"), 500'000'000);
  metrics.addReplay(metrics.opNumber("op19"), 250'000'000);
  metrics.noteStepEnd();
  text = metrics.render();
  EXPECT_TRUE(hasLine(text, replaysOf("op18") + "0.5")) << text;
  EXPECT_TRUE(hasLine(text, replaysOf("other") + "0.25"));
}

TEST(RankMetricsTest, ConcurrentUpdatesAreAllCounted) {
  RankMetrics metrics({});
  std::vector<std::thread> threads;
  for (int thread = 0; thread < 4; ++thread) {
    threads.emplace_back([&metrics] {
      const std::size_t op = metrics.opNumber("aten::mm");
      for (int i = 0; i < 5000; ++i) {
        metrics.addReplay(op, 500'000'000);
        metrics.add(Counter::kSpilledBytes, 3);
        metrics.addStep(0.5);
        metrics.setBytes(Gauge::kAllocatedBytes, i);
        if (i % 50 == 0) metrics.setStages({i});
        EXPECT_TRUE(i % 500 != 0 || !metrics.render(Format::kOpenMetrics).empty());
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  metrics.noteStepEnd();
  const std::string text = metrics.render();
  // 4 threads x 5000 rounds = 20000; every sum is an exact double.
  EXPECT_TRUE(hasLine(text, std::string("ebbtide_recomputed_ops_total") + kLabels + "20000"));
  EXPECT_TRUE(hasLine(text, std::string("ebbtide_recompute_seconds_total") + kLabels + "10000"));
  EXPECT_TRUE(hasLine(text, std::string("ebbtide_spilled_bytes_total") + kLabels + "60000"));
  EXPECT_TRUE(
      hasLine(text, std::string("ebbtide_step_duration_seconds_count") + kLabels + "20000"));
  EXPECT_TRUE(hasLine(text, std::string("ebbtide_memory_allocated_bytes") + kLabels + "4999"));
}

TEST(RankMetricsTest, PromtoolAcceptsTheText) {
  if (std::system("command -v promtool >/dev/null 2>&1") != 0) {
    GTEST_SKIP() << "promtool is not installed (Debian package prometheus)";
  }
  RankMetrics metrics(kThird);
  metrics.setBudgetBytes(INT64_MAX);
  metrics.addStep(0.2);
  metrics.setBuild("0.1", "2.11.0");
  metrics.setPlan("auto", true);
  FILE* promtool = ::popen("promtool check metrics", "w");
  ASSERT_NE(promtool, nullptr);
  std::fputs(metrics.render().c_str(), promtool);
  // 0: fine; 1: not parsable; 3: against the naming conventions.
  EXPECT_EQ(WEXITSTATUS(::pclose(promtool)), 0);
}

}  // namespace
}  // namespace ebbtide::metrics
