#include "job/rank_survey.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>

#include "memory_job_store.hpp"

namespace ebbtide::plugin {
namespace {

using Found = RankSurvey::Found;

class RankSurveyTest : public testing::Test {
 protected:
  RankSurvey& join(int rank, int size, const std::string& host) {
    auto store = std::make_unique<MemoryJobStore>(contents_);
    faults_.push_back(store->faults());
    surveys_.push_back(std::make_unique<RankSurvey>(
        std::move(store), rank, size,
        RankSurvey::Here{.host = host, .job_id = "pid-" + std::to_string(rank)}));
    return *surveys_.back();
  }
  // In the order in which they joined.
  std::vector<std::optional<Found>> poll() {
    now_ += std::chrono::seconds(2);
    std::vector<std::optional<Found>> found;
    for (auto& survey : surveys_) found.push_back(survey->poll(now_));
    return found;
  }

  std::shared_ptr<JobStoreContents> contents_ = std::make_shared<JobStoreContents>();
  std::vector<std::shared_ptr<MemoryJobStore::Faults>> faults_;
  std::vector<std::unique_ptr<RankSurvey>> surveys_;
  RankSurvey::Time now_{};
};

// Ranks 0 and 2 on one machine, 1 and 3 on another: each is its machine's first, or second.
TEST_F(RankSurveyTest, EachLearnsItsPlaceOnItsMachine) {
  for (int rank = 3; rank >= 0; --rank) join(rank, 4, rank % 2 == 0 ? "even" : "odd");
  EXPECT_EQ(poll(), (std::vector<std::optional<Found>>{{}, {}, {}, Found{0, 2, "pid-0"}}));
  const auto later = poll();
  EXPECT_EQ(later[0], (Found{1, 2, "pid-0"}));
  EXPECT_EQ(later[1], (Found{1, 2, "pid-0"}));
  EXPECT_EQ(later[2], (Found{0, 2, "pid-0"}));
}

TEST_F(RankSurveyTest, OneThatComesLateIsAwaited) {
  join(0, 2, "a");
  for (int i = 0; i < 5; ++i) EXPECT_EQ(poll()[0], std::nullopt);
  join(1, 2, "a");
  poll();
  EXPECT_EQ(poll()[1], (Found{1, 2, "pid-0"}));
}

TEST_F(RankSurveyTest, NothingIsAskedWhileTheStoreIsBeingReached) {
  join(0, 1, "a");
  faults_[0]->connects = false;
  EXPECT_EQ(poll()[0], std::nullopt);
  EXPECT_EQ(faults_[0]->calls, 0);
  faults_[0]->connects = true;
  EXPECT_EQ(poll()[0], (Found{0, 1, "pid-0"}));
}

TEST_F(RankSurveyTest, ABrokenStoreThrows) {
  RankSurvey& survey = join(1, 2, "a");
  faults_[0]->broken = true;
  EXPECT_ANY_THROW(survey.poll(now_ + std::chrono::seconds(1)));
}

TEST_F(RankSurveyTest, AnAnswerOfAnotherGroupThrows) {
  RankSurvey& survey = join(1, 2, "a");
  (*contents_)["ebbtide/machines"] = "job\n0 0 0 ";
  EXPECT_THROW(survey.poll(now_ + std::chrono::seconds(1)), std::invalid_argument);
}

}  // namespace
}  // namespace ebbtide::plugin
