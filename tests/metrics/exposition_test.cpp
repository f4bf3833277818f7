#include "exposition.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>
#include <string>
#include <vector>

namespace ebbtide::metrics {
namespace {

using prometheus::ClientMetric;
using prometheus::MetricFamily;
using prometheus::MetricType;

MetricFamily gauge(const std::string& name, double value,
                   const std::vector<ClientMetric::Label>& labels = {}) {
  MetricFamily family{name, "Help.", MetricType::Gauge, {{}}};
  family.metric[0].label = labels;
  family.metric[0].gauge.value = value;
  return family;
}

TEST(ExpositionTest, PrometheusGetsWhatItAsksFor) {
  // Of Prometheus 2.42 and 3.5.
  EXPECT_EQ(formatFor("application/openmetrics-text;version=1.0.0,application/openmetrics-text;"
                      "version=0.0.1;q=0.75,text/plain;version=0.0.4;q=0.5,*/*;q=0.1"),
            Format::kOpenMetrics);
  EXPECT_EQ(formatFor("application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.5,"
                      "application/openmetrics-text;version=0.0.1;q=0.4,text/plain;version=1.0.0;"
                      "escaping=allow-utf-8;q=0.3,text/plain;version=0.0.4;q=0.2,*/*;q=0.1"),
            Format::kOpenMetrics);
  EXPECT_EQ(formatFor("text/plain;version=0.0.4;q=0.5,*/*;q=0.1"), Format::kText);
}

TEST(ExpositionTest, OthersGetText) {
  for (const char* accept :
       {"", "*/*", "text/html,application/xhtml+xml,*/*;q=0.8", "application/json",
        "application/openmetrics-text;version=0.0.1",     // we write 1.0.0
        "application/openmetrics-text;q=0",               // not at all
        "application/openmetrics-text;q=0.4,text/plain",  // text rather
        "application/openmetrics-text;q=nan", "application/openmetrics-text;q=",
        "application/openmetrics-text2", ";;;,,,;=", ",", ";q"}) {
    EXPECT_EQ(formatFor(accept), Format::kText) << accept;
  }
  EXPECT_EQ(formatFor(" APPLICATION/OpenMetrics-Text ; Version=\"1.0.0\" ; Q=1 "),
            Format::kOpenMetrics);
  EXPECT_EQ(formatFor("application/openmetrics-text"), Format::kOpenMetrics);
}

TEST(ExpositionTest, AnyHeaderIsRead) {
  const std::string letters = ";,=q. \t\"01application/openmetrics-textversion*\xff";
  std::mt19937 random(1);
  for (int i = 0; i < 100'000; ++i) {
    std::string header;
    for (unsigned length = random() % 60; length > 0; --length)
      header += letters[random() % letters.size()];
    const Format format = formatFor(header);  // and no letter of another header
    EXPECT_TRUE(format == Format::kText || header.find("op") != std::string::npos);
  }
}

TEST(ExpositionTest, OpenMetricsOfEachType) {
  MetricFamily counter{"ebbtide_spilled_bytes_total", "Bytes.", MetricType::Counter, {{}}};
  counter.metric[0].label = {{"rank", "3"}};
  counter.metric[0].counter.value = 4096;
  MetricFamily steps{"ebbtide_step_duration_seconds", "Steps.", MetricType::Histogram, {{}}};
  steps.metric[0].label = {{"rank", "3"}};
  steps.metric[0].histogram = {
      3, 4.5, {{1, 0.3}, {2, 1}, {3, std::numeric_limits<double>::infinity()}}};
  const std::string text = expose({gauge("ebbtide_memory_peak_bytes", 1.5e300), counter, steps,
                                   gauge("ebbtide_build_info", 1, {{"version", "0.1"}})},
                                  Format::kOpenMetrics);
  EXPECT_EQ(text,
            "# TYPE ebbtide_memory_peak_bytes gauge\n"
            "# UNIT ebbtide_memory_peak_bytes bytes\n"
            "# HELP ebbtide_memory_peak_bytes Help.\n"
            "ebbtide_memory_peak_bytes 1.5e+300\n"
            "# TYPE ebbtide_spilled_bytes counter\n"
            "# UNIT ebbtide_spilled_bytes bytes\n"
            "# HELP ebbtide_spilled_bytes Bytes.\n"
            "ebbtide_spilled_bytes_total{rank=\"3\"} 4096\n"
            "# TYPE ebbtide_step_duration_seconds histogram\n"
            "# UNIT ebbtide_step_duration_seconds seconds\n"
            "# HELP ebbtide_step_duration_seconds Steps.\n"
            "ebbtide_step_duration_seconds_bucket{rank=\"3\",le=\"0.3\"} 1\n"
            "ebbtide_step_duration_seconds_bucket{rank=\"3\",le=\"1.0\"} 2\n"
            "ebbtide_step_duration_seconds_bucket{rank=\"3\",le=\"+Inf\"} 3\n"
            "ebbtide_step_duration_seconds_count{rank=\"3\"} 3\n"
            "ebbtide_step_duration_seconds_sum{rank=\"3\"} 4.5\n"
            "# TYPE ebbtide_build info\n"
            "# HELP ebbtide_build Help.\n"
            "ebbtide_build_info{version=\"0.1\"} 1\n"
            "# EOF\n");
}

TEST(ExpositionTest, LabelsAndHelpAreEscaped) {
  MetricFamily family = gauge("one", 1, {{"job_id", "a\"b\\c\nd"}});
  family.help = "a \"line\"\\\nand more";
  EXPECT_EQ(expose({family}, Format::kOpenMetrics),
            "# TYPE one gauge\n"
            "# HELP one a \\\"line\\\"\\\\\\nand more\n"
            "one{job_id=\"a\\\"b\\\\c\\nd\"} 1\n"
            "# EOF\n");
}

TEST(ExpositionTest, ValuesThatAreNoNumbers) {
  const double infinity = std::numeric_limits<double>::infinity();
  EXPECT_NE(expose({gauge("one", infinity)}, Format::kOpenMetrics).find("one +Inf\n"),
            std::string::npos);
  EXPECT_NE(expose({gauge("one", -infinity)}, Format::kOpenMetrics).find("one -Inf\n"),
            std::string::npos);
  EXPECT_NE(expose({gauge("one", std::nan(""))}, Format::kOpenMetrics).find("one NaN\n"),
            std::string::npos);
}

// A unit is the name's last word, or none.
TEST(ExpositionTest, AUnitIsAWordOfTheName) {
  EXPECT_EQ(expose({gauge("megabytes", 1)}, Format::kOpenMetrics).find("# UNIT"),
            std::string::npos);
}

}  // namespace
}  // namespace ebbtide::metrics
