// Several jobs of made-up servers in one socket folder.
#include "live/running_jobs.hpp"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cstdlib>
#include <filesystem>
#include <memory>

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

class RunningJobsTest : public ::testing::Test {
 protected:
  RunningJobsTest() { ::setenv("EBBTIDE_SOCKET_DIR", folder_.path().c_str(), 1); }
  ~RunningJobsTest() override { ::unsetenv("EBBTIDE_SOCKET_DIR"); }

  std::string socketOf(const std::string& job, int rank) const {
    ::mkdir((folder_.path() + "/" + job).c_str(), 0700);
    return folder_.path() + "/" + job + "/rank-" + std::to_string(rank) + ".sock";
  }
  static JobInput ofRanks(std::vector<int> ranks) {
    JobInput input;
    input.ranks = std::move(ranks);
    return input;
  }

  Folder folder_;
};

TEST_F(RunningJobsTest, AreAllThatLive) {
  const Served a(folder_.path(), "a", "2"), b(folder_.path(), "b", "1");
  test::leaveDeadSocket(socketOf("dead", 0));
  test::leaveDeadSocket(socketOf("b", 5));
  RunningJobs running = RunningJobs::find({});
  EXPECT_EQ(running.title(), "2 jobs");
  ASSERT_EQ(running.notes().size(), 1U);  // none of the dead job
  EXPECT_NE(running.notes()[0].find("skipped rank 5 of b"), std::string::npos);
  const auto jobs = running.statuses(kEnough);
  ASSERT_EQ(jobs.size(), 2U);
  EXPECT_EQ(jobs[0].job, "a");
  EXPECT_EQ(jobs[0].answers.size(), 2U);
  EXPECT_EQ(jobs[1].job, "b");
  EXPECT_EQ(jobs[1].answers.size(), 1U);
  EXPECT_EQ(exitCodeOf(jobs), kFeasible);
}

TEST_F(RunningJobsTest, ComeAndGoBetweenTwoQuestions) {
  auto a = std::make_unique<Served>(folder_.path(), "a", "1");
  RunningJobs running = RunningJobs::find({});
  EXPECT_EQ(running.title(), "job a");
  ASSERT_EQ(running.statuses(kEnough).size(), 1U);
  const Served b(folder_.path(), "b", "1");
  ASSERT_EQ(running.statuses(kEnough).size(), 2U);
  a.reset();  // removes its socket
  auto jobs = running.statuses(kEnough);
  ASSERT_EQ(jobs.size(), 1U);
  EXPECT_EQ(jobs[0].job, "b");
  // One that was killed leaves its socket: it is seen that nobody listens there.
  auto killed = std::make_unique<WrongServer>(socketOf("c", 0), "x");
  ASSERT_EQ(running.statuses(kEnough).size(), 2U);
  killed.reset();
  jobs = running.statuses(kEnough);
  ASSERT_EQ(jobs.size(), 2U);
  EXPECT_EQ(jobs[1].answers.at(0).problem, "nobody listens there");
}

// Forty servers that never say a word, and one rank that does: the limit comes once for all.
TEST_F(RunningJobsTest, ThatHangHoldUpNoOther) {
  std::vector<std::unique_ptr<WrongServer>> hung;
  for (int i = 0; i < 40; ++i) {
    hung.push_back(
        std::make_unique<WrongServer>(socketOf("job-" + std::to_string(100 + i), 0), ""));
  }
  const Served well(folder_.path(), "well", "1");
  RunningJobs running = RunningJobs::find({});
  std::vector<JobAnswers> jobs;
  // On a busy machine the one may take as long: it is given more of it.
  for (const int limit : {2, 10, 60}) {
    jobs = running.statuses(std::chrono::seconds(limit));
    ASSERT_EQ(jobs.size(), 41U);
    if (jobs[40].answers.at(0).problem.empty()) break;
  }
  for (std::size_t i = 0; i < 40; ++i) EXPECT_FALSE(jobs[i].answers.at(0).problem.empty());
  EXPECT_EQ(jobs[40].job, "well");
  EXPECT_EQ(jobs[40].answers.at(0).problem, "");
  EXPECT_EQ(exitCodeOf(jobs), kNoRun);
}

TEST_F(RunningJobsTest, AreThoseWithARankThatIsNamed) {
  const WrongServer a(socketOf("a", 0), "x"), b(socketOf("b", 0), "x"), c(socketOf("b", 1), "x");
  const auto jobs = RunningJobs::find(ofRanks({1})).statuses(kEnough);
  ASSERT_EQ(jobs.size(), 1U);
  EXPECT_EQ(jobs[0].job, "b");
  ASSERT_EQ(jobs[0].answers.size(), 1U);
  EXPECT_EQ(jobs[0].answers[0].rank, 1);
  const auto both = RunningJobs::find(ofRanks({0, 1})).statuses(kEnough);
  ASSERT_EQ(both.size(), 2U);
  EXPECT_EQ(both[0].answers.size(), 1U);  // a has no rank 1, and that is no problem
  EXPECT_EQ(both[1].answers.size(), 2U);
  try {
    RunningJobs::find(ofRanks({0, 7}));
    FAIL();
  } catch (const NoRun& error) {
    EXPECT_STREQ(error.what(), "no job has a rank 7 that runs here; running: a, b");
  }
}

TEST_F(RunningJobsTest, WithOneJobSpeakAsTheOtherVerbs) {
  EXPECT_THROW(RunningJobs::find({}), NoRun);
  const WrongServer a(socketOf("a", 0), "x");
  try {
    RunningJobs::find(ofRanks({7}));
    FAIL();
  } catch (const NoRun& error) {
    EXPECT_STREQ(error.what(), "the job a has no rank 7 that runs here; there: 0");
  }
}

TEST_F(RunningJobsTest, AreOneJsonDocument) {
  const Served a(folder_.path(), "a", "1");
  RunningJobs alone = RunningJobs::find({});
  const nlohmann::json one = alone.json(alone.statuses(kEnough));
  ASSERT_EQ(one.at("jobs").size(), 1U);
  EXPECT_EQ(one.at("job_id"), "a");
  EXPECT_EQ(one.at("ranks"), one.at("jobs").at(0).at("ranks"));
  const Served b(folder_.path(), "b", "2");
  RunningJobs both = RunningJobs::find({});
  const nlohmann::json two = both.json(both.statuses(kEnough));
  EXPECT_EQ(two.size(), 1U);
  ASSERT_EQ(two.at("jobs").size(), 2U);
  EXPECT_EQ(two.at("jobs").at(1).at("job_id"), "b");
  EXPECT_EQ(two.at("jobs").at(1).at("ranks").size(), 2U);
  JobInput input;
  input.job = "b";
  RunningJobs named = RunningJobs::find(input);
  EXPECT_EQ(named.json(named.statuses(kEnough)).size(), 2U);  // job_id and ranks alone
}

}  // namespace
}  // namespace ebbtide::cli
