#include "runtime/rank_in_job.hpp"

#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <string>

#include "planned_run.hpp"

namespace ebbtide::plugin {
namespace {

class RankInJobTest : public test::PlannedRunTest {
 protected:
  static constexpr const char* kOfRankOne[][2] = {
      {"RANK", "1"}, {"LOCAL_RANK", "1"}, {"WORLD_SIZE", "2"}, {"LOCAL_WORLD_SIZE", "2"}};

  static Config withFile() {
    Config config = configOfRankZero();
    config.files.text_file = (std::filesystem::path(testing::TempDir()) /
                              ("ebbtide-series-" + std::to_string(::getpid()) + ".prom"))
                                 .string();
    return config;
  }
  ~RankInJobTest() override { std::filesystem::remove(config_->files.text_file); }
  RankInJobTest() : PlannedRunTest(withFile()) {}

  // A program has set these since its configuration was read.
  void readPlaceOfRankOne() {
    for (const auto& [name, value] : kOfRankOne) ::setenv(name, value, 1);
    rank_.readPlace();
    for (const auto& [name, value] : kOfRankOne) ::unsetenv(name);
  }
  void tellPlace() {
    Config told = *config_;
    told.rank_told = told.local_size_told = true;
    config_.change(std::move(told));
  }
  std::string saidByTrainedStep() {
    testing::internal::CaptureStderr();
    rank_.noteTrains();
    return testing::internal::GetCapturedStderr();
  }
  bool settled() { return rank_.discovery().settled(guard_.hold()); }
  bool hasFile() const { return metrics_.nextFile() != MetricsExport::Time::max(); }
};

// No step has begun that would take it.
TEST_F(RankInJobTest, TheBudgetOfTheRankThatVariablesTellHoldsAtOnce) {
  readPlaceOfRankOne();
  EXPECT_EQ(config_->rank, 1);
  EXPECT_EQ(budget_.bytes(), 32 * kMib);
}

TEST_F(RankInJobTest, APlaceThatIsToldIsNotReadAgain) {
  tellPlace();
  readPlaceOfRankOne();
  EXPECT_EQ(config_->rank, 0);
  EXPECT_EQ(budget_.bytes(), 64 * kMib);
}

// Its parent's place is not its own.
TEST_F(RankInJobTest, OfAForkedChildItIs) {
  tellPlace();
  life_.forked = true;
  readPlaceOfRankOne();
  EXPECT_EQ(config_->rank, 1);
}

TEST_F(RankInJobTest, AForkedChildSaysWhereItIsOnceItTrains) {
  life_.forked = true;
  life_.shows = false;
  const std::string first = saidByTrainedStep();
  EXPECT_NE(first.find("(torch 2.0): budget 64.0 MiB, here [EB01]\n"), std::string::npos) << first;
  EXPECT_TRUE(life_.shows);
  EXPECT_EQ(saidByTrainedStep(), "");
}

TEST_F(RankInJobTest, OthersHaveSaidItBefore) {
  EXPECT_EQ(saidByTrainedStep(), "");
}

TEST_F(RankInJobTest, AtTheEndItActsByWhatItWasTakenToBe) {
  life_.ends = true;
  EXPECT_FALSE(hasFile());
  rank_.settleAtEnd();
  EXPECT_TRUE(settled());
  EXPECT_TRUE(hasFile());
}

// The refusal is the last thing that is said: its series are written, and nothing else.
TEST_F(RankInJobTest, ARefusalStandsLast) {
  budget_.verdict().refusal().stop(guard_.hold()).noteRaised();
  testing::internal::CaptureStderr();
  rank_.settleAtEnd();
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
  EXPECT_FALSE(settled());
  EXPECT_TRUE(hasFile());
}

}  // namespace
}  // namespace ebbtide::plugin
