#include "report/run_report.hpp"

#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "report/report_page.hpp"
#include "wrong_server.hpp"

namespace ebbtide::cli {
namespace {

using nlohmann::json;

json sampleReport() {
  return {{"version", "0.1.0"},
          {"torch_version", "2.11.0"},
          {"mode", "budget"},
          {"rank", 3},
          {"world_size", 4},
          {"steps", 10},
          {"budget_bytes", 1000},
          {"peak_bytes", 700},
          {"mapped_peak_bytes", 900},
          {"budget_violations", 0},
          {"step_seconds", {{"first", 2.0}, {"median", 0.5}}},
          {"recompute_seconds", 1.0},
          {"plan", {{"planner", "greedy"}, {"recomputed_ops", 6}}},
          {"audited", {{"aten::gelu", 2}}},
          {"rejected", {{"aten::mm", 1}}},
          {"timeline",
           {{"seconds", {0.0, 0.1, 0.2}},
            {"live_bytes", {100, 700, 200}},
            {"mapped_bytes", {800, 900, 900}}}}};
}

class RunReportTest : public ::testing::Test {
 protected:
  RunReport readBack(const std::string& text) const {
    const std::string path = folder_.path() + "/run.json";
    std::ofstream(path) << text;
    return readRunReport(path);
  }
  std::string refusalOf(const std::string& text) const {
    try {
      readBack(text);
      return "";
    } catch (const std::invalid_argument& error) {
      return error.what();
    }
  }
  test::Folder folder_;
};

TEST_F(RunReportTest, ReadsWhatARunLeft) {
  const RunReport report = readBack(sampleReport().dump());
  EXPECT_EQ(report.rank, 3);
  EXPECT_DOUBLE_EQ(report.shareOfBudget().value(), 0.9);   // 900 of 1000
  EXPECT_DOUBLE_EQ(report.recomputeShare().value(), 0.2);  // 1 s of 10 steps of 0.5 s
  EXPECT_EQ(report.plan->planner, "greedy");
  EXPECT_EQ(report.timeline.live.size(), 3U);
}

// A first step of 16 s and 9 of 0.5 s: 8.2 of 20.5 s; of ten median steps, 5 s, it would be 164 %.
TEST_F(RunReportTest, TheShareOfRecomputationIsOfAllSteps) {
  json report = sampleReport();
  report["step_seconds"] = {{"first", 16.0}, {"median", 0.5}, {"total", 20.5}};
  report["recompute_seconds"] = 8.2;
  EXPECT_DOUBLE_EQ(readBack(report.dump()).recomputeShare().value(), 0.4);
  report["step_seconds"]["total"] = 0;
  EXPECT_EQ(readBack(report.dump()).recomputeShare(), std::nullopt);
}

TEST_F(RunReportTest, RefusesForeignAndCutFiles) {
  EXPECT_NE(refusalOf("{\"a\":1}").find("run.json is not a report: "), std::string::npos);
  EXPECT_NE(refusalOf("[]").find("run.json is not a report: "), std::string::npos);
  EXPECT_NE(refusalOf("").find("run.json is not JSON, or is incomplete"), std::string::npos);
  EXPECT_NE(refusalOf(R"({"traceEvents": []})")
                .find("run.json is a Perfetto trace, not a report. "
                      "EBBTIDE_REPORT writes reports"),
            std::string::npos);
  const std::string whole = sampleReport().dump();
  for (std::size_t length = 0; length < whole.size(); length += 7) {
    EXPECT_NE(refusalOf(whole.substr(0, length)), "") << length;
  }
  json other = sampleReport();
  other["rank"] = "3";
  EXPECT_NE(refusalOf(other.dump()).find("rank is missing or of another type"), std::string::npos);
}

TEST_F(RunReportTest, ThePageLoadsNothingAndEscapesAll) {
  json harmful = sampleReport();
  const std::string script = "<script>alert(1)</script>\"'&";
  harmful["mode"] = harmful["version"] = harmful["dominating"] = script;
  harmful["plan"]["planner"] = script;
  harmful["audited"] = {{script, 1}};
  harmful["kept_bytes"] = {{script, 5}};
  const std::string page = reportPage({readBack(harmful.dump())});
  EXPECT_EQ(page.find("<script"), std::string::npos);
  EXPECT_NE(page.find("&lt;script&gt;alert(1)&lt;/script&gt;&quot;"), std::string::npos);
  EXPECT_EQ(page.find("http://"), std::string::npos);
  EXPECT_EQ(page.find("https://"), std::string::npos);
  EXPECT_NE(page.find("default-src 'none'"), std::string::npos);
  EXPECT_NE(page.find("<svg"), std::string::npos);
}

// Reports of torch's own allocator, and of earlier versions, know nothing of mapped bytes.
TEST_F(RunReportTest, WhatIsMappedIsDrawnWhereItIsKnown) {
  json report = sampleReport();
  const auto isDrawn = [&] {
    return reportPage({readBack(report.dump())}).find("<path class=\"mapped\"") !=
           std::string::npos;
  };
  EXPECT_TRUE(isDrawn());
  report["timeline"]["mapped_bytes"] = nullptr;
  EXPECT_FALSE(isDrawn());
  report["timeline"].erase("mapped_bytes");
  EXPECT_FALSE(isDrawn());
}

TEST_F(RunReportTest, ThePageIsMadeOfTheOddestReports) {
  json odd = sampleReport();
  odd["timeline"] = {{"seconds", {0.0, 0.0}}, {"live_bytes", {-5, 1e300}}};
  odd["budget_bytes"] = INT64_MAX;
  odd["rank"] = -7;
  odd["step_seconds"] = nullptr;
  EXPECT_NE(reportPage({readBack(odd.dump())}).find("</html>"), std::string::npos);
  odd["timeline"] = {
      {"seconds", {0.0, 1.0}}, {"live_bytes", {1, 2}}, {"mapped_bytes", {-1, "x", 1e300}}};
  EXPECT_NE(reportPage({readBack(odd.dump())}).find("</html>"), std::string::npos);
  odd["timeline"] = json::object();
  EXPECT_NE(reportPage({readBack(odd.dump())}).find("No timeline"), std::string::npos);
}

}  // namespace
}  // namespace ebbtide::cli
