#include "runtime/planning/job_client.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "ebbtide/scheduler/planner.hpp"
#include "job/memory_job_store.hpp"
#include "job/recorded_rank.hpp"

namespace ebbtide::plugin {
namespace {

constexpr std::int64_t kBudget = std::int64_t{1} << 40;  // every step fits
const JobClient::Here kHere{.torch_version = "2.11.0"};

// A rank of the recorded pipeline of four, whose process takes note of what it is told.
struct ClientOfRank : JobClient::Process {
  bool foundStages(const std::vector<std::int32_t>& stages) override {
    found_.push_back(stages);
    return false;
  }
  void seeStages(const std::vector<std::int32_t>& stages) override { seen_.push_back(stages); }
  void fallShort(const JobFindings::Rank&) override { ADD_FAILURE() << "all fit"; }
  void endRound(const std::string& why) override { ended_.push_back(why); }
  void adopt(const RankJob::Decision&) override { ADD_FAILURE() << "nothing is to be planned"; }

  void offerStore(const std::shared_ptr<JobStoreContents>& contents) {
    client_.offerStore([this, contents](const std::string&) {
      ++opened_;
      auto store = std::make_unique<MemoryJobStore>(contents);
      faults_ = store->faults();
      return store;
    });
  }
  void tell(const scheduler::Trace& trace, bool asks_stages = false) {
    scheduler::TraceGraph step = scheduler::buildGraph(trace);
    scheduler::Schedule everything = scheduler::keepEverything(step.graph);
    client_.tell(trace, {std::move(step), std::move(everything), {}},
                 {.cap_bytes = kBudget, .asks_stages = asks_stages, .budget_bytes = kBudget});
  }

  CurrentConfig config_;
  SessionGuard guard_;
  std::atomic<bool> ends_{false};
  int opened_ = 0;
  std::shared_ptr<MemoryJobStore::Faults> faults_;
  std::vector<std::vector<std::int32_t>> found_, seen_;
  std::vector<std::string> ended_;
  JobClient client_{
      config_, guard_, *this, ends_, [](const std::string&) {}, [](const std::string&) {}};
};

TEST(JobClient, WithoutAStoreItTakesNoPart) {
  ClientOfRank rank;
  EXPECT_FALSE(rank.client_.takesPart());
  rank.client_.beginAnew(kHere);  // it has not begun: the planning thread has not
  rank.client_.begin(kHere);
  EXPECT_FALSE(rank.client_.hasStore(rank.guard_.hold()));
  rank.tell(recordedRank(0));
  EXPECT_FALSE(rank.client_.takesPart());
  rank.client_.end();
  ASSERT_TRUE(rank.client_.traffic());
  EXPECT_EQ(rank.client_.traffic()->written_bytes, 0);
}

TEST(JobClient, AProcessWhoseStepsExchangeNoMessagesHasNoTraffic) {
  ClientOfRank rank;
  rank.client_.end();  // it has not begun: a fork may end before
  EXPECT_FALSE(rank.client_.traffic());
  rank.client_.begin(kHere);
  rank.client_.end();
  EXPECT_FALSE(rank.client_.traffic());
}

TEST(JobClient, AStoreMayBeOfferedAfterItBegan) {
  ClientOfRank rank;
  rank.client_.begin(kHere);
  rank.offerStore(std::make_shared<JobStoreContents>());
  EXPECT_TRUE(rank.client_.hasStore(rank.guard_.hold()));
  EXPECT_EQ(rank.opened_, 0);  // a step is to be told first
  rank.tell(recordedRank(0));
  EXPECT_EQ(rank.opened_, 1);
  EXPECT_TRUE(rank.client_.takesPart());
}

// Others have it in their plans as the rank that it began as.
TEST(JobClient, WhoTakesPartStaysTheRankThatItIs) {
  ClientOfRank rank;
  rank.client_.begin(kHere);
  rank.client_.beginAnew(kHere);
  rank.offerStore(std::make_shared<JobStoreContents>());
  rank.tell(recordedRank(0));
  rank.client_.beginAnew(kHere);
  EXPECT_TRUE(rank.client_.takesPart());
  rank.client_.begin(kHere);
  EXPECT_FALSE(rank.client_.takesPart());
}

// std::condition_variable counts from now on: no time may be too far off for that.
TEST(JobClient, LooksAgainWithinADay) {
  ClientOfRank rank;
  rank.client_.begin(kHere);
  const auto now = std::chrono::steady_clock::now();
  EXPECT_GT(rank.client_.nextPoll(), now + std::chrono::hours(23));
  EXPECT_LT(rank.client_.nextPoll(), now + std::chrono::hours(25));
}

TEST(JobClient, ItsPlansAreMadeByTheConfigurationsPlanner) {
  ClientOfRank rank;
  Config config;
  config.planning.planner = "greedy";
  rank.config_.change(config);
  const auto limits = rank.client_.limits(7, 8, true);
  EXPECT_EQ(limits.planner, "greedy");
  EXPECT_EQ(limits.cap_bytes, 7);
  EXPECT_EQ(limits.budget_bytes, 8);
  EXPECT_TRUE(limits.asks_stages);
  EXPECT_EQ(limits.cancelled, &rank.ends_);
}

TEST(JobClient, WithoutAPlanOfTheJobsItsOwnStands) {
  ClientOfRank rank;
  rank.client_.begin(kHere);
  const scheduler::Trace trace = recordedRank(0);
  Planned planned;
  planned.step = scheduler::buildGraph(trace);
  planned.result.schedule = scheduler::keepEverything(planned.step.graph);
  planned.result.planner = "own";
  EXPECT_FALSE(rank.client_.follow(trace, planned, {.cap_bytes = kBudget}));
  EXPECT_EQ(planned.result.planner, "own");
}

TEST(JobClient, WhatAScheduleComesToIsJudgedByTheCap) {
  const scheduler::Trace trace = recordedRank(0);
  scheduler::TraceGraph step = scheduler::buildGraph(trace);
  const scheduler::Schedule everything = scheduler::keepEverything(step.graph);
  Planned planned;
  JobClient::put({step, everything, "job"}, kBudget, planned);
  EXPECT_EQ(planned.result.planner, "job");
  EXPECT_TRUE(planned.result.feasible);
  const std::int64_t peak = planned.simulated.peak_bytes;
  JobClient::put({step, everything, "job"}, peak, planned);
  EXPECT_TRUE(planned.result.feasible);
  JobClient::put({step, everything, "job"}, peak - 1, planned);
  EXPECT_FALSE(planned.result.feasible);
}

// Rank 2 asks which stages it runs, and the budget of rank 0's job names some. It tells anew once
// it knows: rank 0 sees them in both rounds.
TEST(JobClient, FourRanksToldOfTheirStepsEndARound) {
  const auto contents = std::make_shared<JobStoreContents>();
  std::vector<std::unique_ptr<ClientOfRank>> ranks;
  for (int i = 0; i < 4; ++i) {
    ClientOfRank& rank = *ranks.emplace_back(std::make_unique<ClientOfRank>());
    Config config;
    config.rank = i;
    config.budget.by_rank = scheduler::RankBudgets::parse("EBBTIDE_BUDGET", "stage0=1GiB");
    rank.config_.change(config);
    rank.offerStore(contents);
    rank.client_.begin(kHere);
    rank.tell(recordedRank(i), /*asks_stages=*/i == 2);
  }
  for (int tick = 0; tick < 80; ++tick) {
    const JobClient::Time now{std::chrono::milliseconds(100 * tick)};
    for (const auto& rank : ranks) rank->client_.poll(now, {tick, 100'000'000});
  }
  for (const auto& rank : ranks)
    EXPECT_EQ(rank->ended_, std::vector<std::string>{"every rank's step fits its budget"});
  EXPECT_EQ(ranks[2]->found_, (std::vector<std::vector<std::int32_t>>{{2}}));
  ASSERT_FALSE(ranks[0]->seen_.empty());
  EXPECT_EQ(ranks[0]->seen_.front(), (std::vector<std::int32_t>{0, 1, 2, 3}));
  EXPECT_TRUE(ranks[1]->found_.empty());
  ranks[1]->client_.end();
  ASSERT_TRUE(ranks[1]->client_.traffic());
  EXPECT_GT(ranks[1]->client_.traffic()->written_bytes, 0);
  EXPECT_FALSE(ranks[1]->client_.takesPart());
}

}  // namespace
}  // namespace ebbtide::plugin
