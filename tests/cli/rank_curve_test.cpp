// What other budgets would cost a running rank, as the program prints it.
#include "live/rank_curve.hpp"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cstdlib>

#include "checked_json.hpp"
#include "live/rank_answers.hpp"
#include "served_ranks.hpp"
#include "verbs.hpp"
#include "wrong_server.hpp"

namespace ebbtide::cli {
namespace {

using test::Folder;
using test::httpAnswer;
using test::Served;
using test::WrongServer;
using namespace std::chrono_literals;

constexpr const char* kPoints =
    R"("points":[{"budget_bytes":1048576,"predicted_peak_bytes":524288,"overhead_ratio":0.5,)"
    R"("step_seconds":0.15},{"budget_bytes":3145728,"predicted_peak_bytes":2097152,)"
    R"("overhead_ratio":0.0,"step_seconds":0.1}])";

std::string described(const std::string& state, const std::string& present) {
  RankAnswer answer{.rank = 0, .where = {}, .status = 200, .document = {}, .problem = {}};
  answer.document =
      *parseChecked("{\"state\":\"" + state + "\"," + kPoints + ",\"present\":" + present + "}");
  return describeCurve(answer);
}

TEST(RankCurve, MarksWhereTheRankIs) {
  // Between the two budgets.
  EXPECT_EQ(
      described("ready", R"({"budget_bytes":2097152,"peak_bytes":1048576,"step_seconds":0.125,)"
                         R"("overhead_ratio":0.25})"),
      "predicted for 2 budgets\n"
      " budget       peak  more time  step time\n"
      "1.0 MiB  512.0 KiB      50.0%   150.0 ms\n"
      "2.0 MiB    1.0 MiB      25.0%   125.0 ms  now, as measured\n"
      "3.0 MiB    2.0 MiB       0.0%   100.0 ms");
  // Without a budget by its peak: above both.
  EXPECT_EQ(
      described("computing", R"({"budget_bytes":null,"peak_bytes":4194304,"step_seconds":0.1})"),
      "predicted for 2 budgets, and still computing\n"
      " budget       peak  more time  step time\n"
      "1.0 MiB  512.0 KiB      50.0%   150.0 ms\n"
      "3.0 MiB    2.0 MiB       0.0%   100.0 ms\n"
      "   none    4.0 MiB              100.0 ms  now, as measured");
  EXPECT_EQ(described("ready", "null").find("now"), std::string::npos);
  const std::string unknown =
      described("ready", R"({"peak_bytes":1,"step_seconds":1,"overhead_ratio":null})");
  EXPECT_NE(unknown.find("none        1 B                1.00 s  now, as measured"),
            std::string::npos)
      << unknown;
}

class RankCurves : public ::testing::Test {
 protected:
  RankCurves() { ::setenv("EBBTIDE_SOCKET_DIR", folder_.path().c_str(), 1); }
  ~RankCurves() override { ::unsetenv("EBBTIDE_SOCKET_DIR"); }

  // Its time-out is longer than any answer takes, on a busy machine too.
  static RunningJob runningJob() {
    JobInput input;
    input.timeout_seconds = 60;
    return RunningJob::find(input);
  }

  Folder folder_;
};

TEST_F(RankCurves, OfEachRankThatRuns) {
  const Served served(folder_.path(), "job", "2");
  RunningJob job = runningJob();
  const auto answers = askCurves(job, 0s);
  ASSERT_EQ(answers.size(), 2U);
  EXPECT_EQ(exitCodeOf(answers), kFeasible);
  // The made-up ranks: 32 budgets, 16 GiB for the first and none for the second.
  for (const RankAnswer& answer : answers) {
    EXPECT_EQ(describeCurve(answer).rfind("predicted for 32 budgets\n", 0), 0U);
  }
  EXPECT_NE(describeCurve(answers[0]).find("\n16.00 GiB"), std::string::npos);
  EXPECT_NE(describeCurve(answers[1]).find("\n     none"), std::string::npos);
}

TEST_F(RankCurves, WithoutOneSaysWhy) {
  ::mkdir((folder_.path() + "/job").c_str(), 0700);
  const std::string place = folder_.path() + "/job/rank-";
  const WrongServer none(place + "0.sock",
                         httpAnswer(R"({"state":"none","why":"not\u001b now","points":[]})"));
  const WrongServer late(place + "1.sock",
                         httpAnswer(R"({"state":"computing","why":"","points":[]})"));
  const WrongServer part(place + "2.sock",
                         httpAnswer(std::string(R"({"state":"computing",)") + kPoints + "}"));
  RunningJob job = runningJob();
  const auto answers = askCurves(job, 1ms);
  ASSERT_EQ(answers.size(), 3U);
  EXPECT_EQ(answers[0].problem, "no curve: not? now");
  EXPECT_EQ(exitCodeOf({answers[0]}), kRefused);
  EXPECT_EQ(answers[1].problem, "the curve is still being computed: ask again, or --wait longer");
  EXPECT_EQ(exitCodeOf({answers[1]}), kNoRun);
  EXPECT_EQ(answers[2].problem, "");
}

}  // namespace
}  // namespace ebbtide::cli
