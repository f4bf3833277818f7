#include "job/rank_job.hpp"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "ebbtide/scheduler/simulator.hpp"
#include "job/memory_job_store.hpp"
#include "job/recorded_rank.hpp"

namespace ebbtide::plugin {
namespace {

constexpr Bytes kBudget = Bytes{1} << 40;  // every step fits

// Four recorded ranks of a pipeline, with a clock that the test moves.
class RankJobTest : public testing::Test {
 protected:
  struct Rank {
    std::unique_ptr<RankJob> job;
    std::vector<std::vector<std::int32_t>> told;  // stages
    std::vector<std::string> ended;               // rounds
    bool changes_budget = false;
  };

  void SetUp() override {
    for (int i = 0; i < 4; ++i) {
      Rank& rank = *ranks_.emplace_back(std::make_unique<Rank>());
      traces_.push_back(recordedRank(i));
      rank.job = std::make_unique<RankJob>(
          RankPlanning::Identity{.versions = {JobVersions::kProtocol, "0.1.0", "2.11.0"}},
          RankJob::Host{
              .open_store =
                  [this](const std::string&) {
                    return std::make_unique<MemoryJobStore>(contents_);
                  },
              .say = [](const std::string& text) { ADD_FAILURE() << text; },
              .debug = [](const std::string&) {},
              .take_stages =
                  [&rank](const auto& stages) {
                    rank.told.push_back(stages);
                    return rank.changes_budget;
                  },
              .fall_short = [](const JobFindings::Rank&) { ADD_FAILURE() << "all fit"; },
              .end_round = [&rank](const std::string& why) { rank.ended.push_back(why); }});
    }
  }

  void note(std::size_t rank, bool asks_stages, std::optional<Bytes> budget) {
    scheduler::TraceGraph step = scheduler::buildGraph(traces_[rank]);
    scheduler::Schedule everything = scheduler::keepEverything(step.graph);
    ranks_[rank]->job->noteStep(traces_[rank], {std::move(step), std::move(everything), {}},
                                {.cap_bytes = budget.value_or(kNoBudgetBytes),
                                 .asks_stages = asks_stages,
                                 .budget_bytes = budget});
  }

  void run(int seconds) {
    for (int tick = 0; tick < 10 * seconds; ++tick, ++tick_) {
      const RankJob::Time now{std::chrono::milliseconds(100 * tick_)};
      for (const auto& rank : ranks_) rank->job->poll(now, {tick_, 100'000'000});
    }
  }

  std::vector<std::unique_ptr<Rank>> ranks_;
  std::vector<scheduler::Trace> traces_;
  std::shared_ptr<JobStoreContents> contents_ = std::make_shared<JobStoreContents>();
  std::int64_t tick_ = 0;  // also the step
};

using Told = std::vector<std::vector<std::int32_t>>;
const std::string kFits = "every rank's step fits its budget";

// Rank 2 is told that it runs stage 2, takes no part under the budget that it had, and does so
// again under the one that it has then. Rank 1's stays: it reports at once that it knows. The first
// round ends for nobody: the second one has the advice.
TEST_F(RankJobTest, ARankThatAsksIsToldItsStagesAndReportsUnderItsBudget) {
  ranks_[2]->changes_budget = true;
  for (std::size_t rank = 0; rank < 4; ++rank) note(rank, rank == 1 || rank == 2, std::nullopt);
  run(8);
  EXPECT_EQ(ranks_[1]->told, Told{{1}});
  EXPECT_EQ(ranks_[2]->told, Told{{2}});
  EXPECT_EQ(ranks_[2]->job->nextPoll(), RankJob::Time::max());
  for (const auto& rank : ranks_) EXPECT_TRUE(rank->ended.empty());
  note(2, false, kBudget);
  run(8);
  for (const auto& rank : ranks_) EXPECT_EQ(rank->ended, std::vector<std::string>{kFits});
  EXPECT_EQ(ranks_[2]->told.size(), 1U);
  EXPECT_TRUE(ranks_[0]->told.empty());
}

TEST_F(RankJobTest, RanksThatDoNotAskAreToldNothing) {
  for (std::size_t rank = 0; rank < 4; ++rank) note(rank, false, kBudget);
  run(8);
  for (const auto& rank : ranks_) {
    EXPECT_TRUE(rank->told.empty());
    EXPECT_EQ(rank->ended, std::vector<std::string>{kFits});
  }
}

}  // namespace
}  // namespace ebbtide::plugin
