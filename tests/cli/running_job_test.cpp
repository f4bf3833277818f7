// The ranks of a made-up server, and servers that are none.
#include "live/running_job.hpp"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cstdlib>
#include <fstream>
#include <memory>

#include "checked_json.hpp"
#include "live/budget_change.hpp"
#include "live/rank_answers.hpp"
#include "live/rank_row.hpp"
#include "served_ranks.hpp"
#include "verbs.hpp"
#include "wrong_server.hpp"

namespace ebbtide::cli {
namespace {

using test::Folder;
using test::httpAnswer;
using test::Served;
using test::WrongServer;

constexpr std::chrono::seconds kEnough(60);  // for any answer, on a busy machine too

class RunningJobTest : public ::testing::Test {
 protected:
  RunningJobTest() { ::setenv("EBBTIDE_SOCKET_DIR", folder_.path().c_str(), 1); }
  ~RunningJobTest() override { ::unsetenv("EBBTIDE_SOCKET_DIR"); }

  // "": it was found.
  static std::string whyNoRun(const JobInput& input) {
    try {
      RunningJob::find(input);
      return "";
    } catch (const NoRun& error) {
      return error.what();
    }
  }
  void makeJob(const std::string& name) const {
    ::mkdir((folder_.path() + "/" + name).c_str(), 0700);
  }

  Folder folder_;
};

TEST_F(RunningJobTest, SaysWhatToDoWhereNothingRuns) {
  EXPECT_NE(whyNoRun({}).find("no running job in " + folder_.path()), std::string::npos);
  makeJob("old");
  test::leaveDeadSocket(folder_.path() + "/old/rank-0.sock");
  EXPECT_NE(whyNoRun({}).find("the sockets of old are left over"), std::string::npos);
}

TEST_F(RunningJobTest, AsksWhichOfSeveralJobs) {
  makeJob("a");
  makeJob("b");
  const WrongServer a(folder_.path() + "/a/rank-0.sock", "x"),
      b(folder_.path() + "/b/rank-4.sock", "x");
  EXPECT_EQ(whyNoRun({}),
            "several jobs run here: a (1 rank), b (1 rank); choose one with --job ID");
  EXPECT_EQ(whyNoRun({.job = "c", .ranks = {}, .endpoints = {}, .token_file = {}}),
            "no job 'c' runs here; running: a (1 rank), b (1 rank)");
  EXPECT_EQ(whyNoRun({.job = "b", .ranks = {}, .endpoints = {}, .token_file = {}}), "");
  EXPECT_EQ(whyNoRun({.job = "b", .ranks = {0}, .endpoints = {}, .token_file = {}}),
            "the job b has no rank 0 that runs here; there: 4");
}

TEST_F(RunningJobTest, AsksAllRanksAndSkipsTheDead) {
  const Served served(folder_.path(), "job", "3");
  test::leaveDeadSocket(folder_.path() + "/job/rank-8.sock");
  RunningJob job = RunningJob::find({});
  ASSERT_EQ(job.notes().size(), 1U);
  EXPECT_NE(job.notes()[0].find("skipped rank 8 of job"), std::string::npos);
  const auto answers = job.statuses(kEnough);
  ASSERT_EQ(answers.size(), 3U);
  EXPECT_EQ(exitCodeOf(answers), kFeasible);
  // The made-up ranks: the second has no budget, the third is paused.
  EXPECT_EQ(RankRow::of(answers[0]).memory.budget_bytes, std::int64_t{16} << 30);
  EXPECT_EQ(RankRow::of(answers[1]).memory.budget_bytes, std::nullopt);
  EXPECT_EQ(RankRow::of(answers[2]).state, "paused");
  EXPECT_EQ(RankRow::of(answers[0]).history.step_seconds.size(), 120U);
}

TEST_F(RunningJobTest, ARankThatHangsHoldsUpNobodyElse) {
  const Served served(folder_.path(), "job", "3", {"--hung-rank", "1"});
  RunningJob job = RunningJob::find({});
  std::vector<RankAnswer> answers;
  // On a busy machine the others may take as long: they are given more of it.
  for (const int limit : {2, 10, 60}) {
    answers = job.statuses(std::chrono::seconds(limit));
    ASSERT_EQ(answers.size(), 3U);
    EXPECT_EQ(answers[1].problem, "no answer within " + std::to_string(limit) + " s");
    if (answers[0].problem.empty() && answers[2].problem.empty()) break;
  }
  EXPECT_TRUE(answers[0].problem.empty() && answers[2].problem.empty());
  EXPECT_EQ(exitCodeOf(answers), kNoRun);
}

TEST_F(RunningJobTest, ChangesABudgetOrSaysTheSmallest) {
  const Served served(folder_.path(), "job", "2");
  RunningJob job = RunningJob::find({.job = {}, .ranks = {0}, .endpoints = {}, .token_file = {}});
  auto answers = changeBudget(job, "12GiB", kEnough);
  ASSERT_EQ(answers.size(), 1U);
  EXPECT_NE(describeBudget(answers[0]).find("budget 12.00 GiB (before: 16.00 GiB), from step"),
            std::string::npos);
  // The made-up rank has no plan below 9 GiB.
  answers = changeBudget(job, "1GiB", kEnough);
  EXPECT_EQ(answers[0].problem,
            "1GiB is too small. Smallest budget now: ebbtide budget 0 9216MiB --job job");
  EXPECT_EQ(problemOf(answers[0]),
            "1GiB is too small [EB128]. Smallest budget now: ebbtide budget 0 9216MiB --job job");
  EXPECT_EQ(exitCodeOf(answers), kInfeasible);
}

TEST_F(RunningJobTest, SeesANodeThroughItsPortAndMayChangeItWithTheToken) {
  const std::string token = folder_.path() + "/token";
  std::ofstream(token) << "0123456789abcdef\n";
  ::chmod(token.c_str(), 0600);
  const Served served(folder_.path(), "job", "3", {"--token-file", token});
  JobInput input;
  input.timeout_seconds = 60;
  input.endpoints = {served.endpoint()};
  input.endpoints.push_back(served.endpoint());  // a second time
  RunningJob without = RunningJob::find(input);
  const auto statuses = without.statuses(kEnough);
  ASSERT_EQ(statuses.size(), 3U);
  EXPECT_EQ(statuses[2].name(), served.endpoint() + ", rank 2");
  EXPECT_EQ(exitCodeOf(changeBudget(without, "12GiB", kEnough)), kRefused);
  input.token_file = token;
  input.ranks = {2};
  RunningJob with = RunningJob::find(input);
  const auto answers = changeBudget(with, "12GiB", kEnough);
  ASSERT_EQ(answers.size(), 1U);
  EXPECT_EQ(answers[0].problem, "");
  EXPECT_EQ(answers[0].rank, 2);
}

TEST_F(RunningJobTest, UnreadableAnswersAreSaidAndDoNoHarm) {
  makeJob("job");
  const std::string place = folder_.path() + "/job/rank-";
  const WrongServer cut(place + "0.sock", httpAnswer("{\"rank\":0,\"state\":\"trai"));
  const WrongServer foreign(place + "1.sock", httpAnswer("[1,2]"));
  const WrongServer deep(place + "2.sock", httpAnswer(std::string(100000, '[')));
  const WrongServer missing(place + "3.sock", httpAnswer("{\"error\":\"not built\"}", "501 No"));
  const WrongServer harmful(place + "4.sock",
                            httpAnswer("{\"error\":\"\\u001b[2J\\u009b1m\"}", "403 No"));
  const WrongServer types(place + "5.sock",
                          httpAnswer("{\"state\":\"x\\u001b[1m\",\"steps\":\"many\",\"memory\":7,"
                                     "\"history\":{\"step_seconds\":[1,\"a\",null,1e999]}}"));
  RunningJob job = RunningJob::find({});
  const auto answers = job.statuses(kEnough);
  ASSERT_EQ(answers.size(), 6U);
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(answers[i].problem,
              "its answer cannot be read: it is not the JSON of a rank, or is incomplete");
  }
  EXPECT_EQ(answers[3].problem, "not available: not built");
  EXPECT_EQ(answers[4].problem, "?[2J?1m");
  const RankRow status = RankRow::of(answers[5]);
  EXPECT_EQ(status.problem,
            "its answer cannot be read: it is not the JSON of a rank, or is incomplete");  // 1e999
}

// A code is shown where it looks as ours do, and the problem stays as it is without one.
TEST_F(RunningJobTest, AProblemHasItsCodeLast) {
  const auto shown = [](const std::string& document, const std::string& problem = "too late") {
    RankAnswer answer{.rank = 1, .where = {}, .status = 504, .document = {}, .problem = problem};
    if (!document.empty()) answer.document = *parseChecked(document);
    return problemOf(answer);
  };
  EXPECT_EQ(shown("{\"code\":\"EB124\"}"), "too late [EB124]");
  EXPECT_EQ(shown("{\"code\":\"EB34\"}"), "too late [EB34]");
  EXPECT_EQ(shown("{\"code\":\"EB124\"}", ""), "");
  EXPECT_EQ(shown("{\"code\":\"EB124\"}", "Too late. Ask again"), "Too late. Ask again [EB124]");
  for (const char* document :
       {"", "{}", "{\"code\":124}", "{\"code\":\"\"}", "{\"code\":\"EB\"}", "{\"code\":\"XY124\"}",
        "{\"code\":\"EB12x\"}", "{\"code\":\"EB\\u001b[1m\"}", "{\"code\":\"EB12345\"}"}) {
    EXPECT_EQ(shown(document), "too late") << document;
  }
}

TEST_F(RunningJobTest, OtherTypesThanPromisedAreNotKnown) {
  RankAnswer answer{.rank = 1, .where = {}, .status = 200, .document = {}, .problem = {}};
  answer.document = *parseChecked(
      "{\"state\":\"x\\u001b[1m\",\"steps\":\"many\",\"memory\":7,\"step_seconds\":[],"
      "\"history\":{\"step_seconds\":[1,\"a\",null,2]}}");
  const RankRow status = RankRow::of(answer);
  EXPECT_EQ(status.state, "x?[1m");
  EXPECT_EQ(status.steps.count, std::nullopt);
  EXPECT_EQ(status.memory.peak_bytes, std::nullopt);
  EXPECT_EQ(status.history.step_seconds, (std::vector<double>{1, 2}));
}

TEST_F(RunningJobTest, RefusesATokenThatCouldBeAHeader) {
  const std::string token = folder_.path() + "/token";
  std::ofstream(token) << "secret with spaces\n";
  JobInput input;
  input.token_file = token;
  EXPECT_THROW(RunningJob::find(input), std::invalid_argument);
}

}  // namespace
}  // namespace ebbtide::cli
