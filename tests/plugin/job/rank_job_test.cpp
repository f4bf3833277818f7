#include "job/rank_job.hpp"

#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/no_budget.hpp"
#include "ebbtide/scheduler/planner.hpp"
#include "ebbtide/scheduler/simulator.hpp"
#include "ebbtide/scheduler/validator.hpp"
#include "ebbtide/scheduler/value_copies.hpp"
#include "memory_job_store.hpp"
#include "recorded_rank.hpp"

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
    std::vector<std::vector<std::int32_t>> seen;  // stages of all
    std::vector<std::string> said, groups;        // groups: whose store it opened
    std::shared_ptr<MemoryJobStore::Faults> faults;
    std::optional<RankJob::Decision> decision;  // the last one
    bool changes_budget = false;
  };

  void SetUp() override {
    for (int i = 0; i < 4; ++i) {
      Rank& rank = *ranks_.emplace_back(std::make_unique<Rank>());
      traces_.push_back(recordedRank(i));
      rank.job = std::make_unique<RankJob>(
          RankPlanning::Identity{.versions = {JobVersions::kProtocol, "0.1.0", "2.11.0"}},
          RankJob::Process{
              .open_store =
                  [this, &rank](const std::string& group) {
                    rank.groups.push_back(group);
                    auto& contents = contents_[group];
                    if (contents == nullptr) contents = std::make_shared<JobStoreContents>();
                    auto store = std::make_unique<MemoryJobStore>(contents);
                    rank.faults = store->faults();
                    return store;
                  },
              .say = [&rank](const std::string& text) { rank.said.push_back(text); },
              .debug = [](const std::string&) {},
              .take_stages =
                  [&rank](const auto& stages) {
                    rank.told.push_back(stages);
                    return rank.changes_budget;
                  },
              .fall_short = [](const JobFindings::Rank&) { ADD_FAILURE() << "all fit"; },
              .see_stages = [&rank](const auto& stages) { rank.seen.push_back(stages); },
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
      for (const auto& rank : ranks_) {
        rank->job->poll(now, {tick_, 100'000'000});
        if (auto next = rank->job->takeDecision()) rank->decision = std::move(next);
      }
    }
  }

  std::vector<std::unique_ptr<Rank>> ranks_;
  std::vector<scheduler::Trace> traces_;
  std::map<std::string, std::shared_ptr<JobStoreContents>> contents_;  // of each group's store
  std::int64_t tick_ = 0;                                              // also the step
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

// Rank 0 sees which stages there are, where nothing has to be planned, too.
TEST_F(RankJobTest, RanksThatDoNotAskAreToldNothing) {
  for (std::size_t rank = 0; rank < 4; ++rank) note(rank, false, kBudget);
  run(8);
  EXPECT_EQ(ranks_[0]->seen, (Told{{0, 1, 2, 3}}));
  for (std::size_t rank = 1; rank < 4; ++rank) EXPECT_TRUE(ranks_[rank]->seen.empty());
  for (const auto& rank : ranks_) {
    EXPECT_TRUE(rank->told.empty());
    EXPECT_EQ(rank->ended, std::vector<std::string>{kFits});
  }
}

TEST_F(RankJobTest, RanksThatFitSayNothing) {
  for (std::size_t rank = 0; rank < 4; ++rank) note(rank, false, kBudget);
  run(8);
  for (const auto& rank : ranks_) {
    EXPECT_TRUE(rank->said.empty());
    EXPECT_FALSE(rank->decision);
  }
}

// With plans of their own that need as little as can be, and room for half of what these save:
// whatever the job comes to is better on some rank.
class ShortRankJobTest : public RankJobTest {
 protected:
  void SetUp() override {
    RankJobTest::SetUp();
    for (const scheduler::Trace& trace : traces_) {
      scheduler::TraceGraph step = scheduler::buildGraph(trace);
      const Bytes plain =
          scheduler::simulate(step.graph, scheduler::keepEverything(step.graph)).peak_bytes;
      scheduler::addValueCopies(trace, step);
      auto planned = scheduler::planner("greedy").plan(step.graph, 0, {});
      caps_.push_back((plain + planned.peak_bytes) / 2);
      own_.push_back({std::move(step), std::move(planned.schedule), "greedy"});
    }
    for (std::size_t rank = 0; rank < 4; ++rank) noteShort(rank);
  }

  void noteShort(std::size_t rank) {
    ranks_[rank]->job->noteStep(traces_[rank], own_[rank],
                                {.cap_bytes = caps_[rank],
                                 .planning_time = std::chrono::minutes(10),
                                 .planner = "greedy",
                                 .budget_bytes = caps_[rank]});
  }

  static Nanoseconds replayed(const StepSchedule& of) {
    return scheduler::simulate(of.step.graph, of.schedule).recompute_ns;
  }

  // Those that change their plan; each of the others keeps its own.
  std::vector<std::size_t> changed() const {
    std::vector<std::size_t> changed;
    for (std::size_t rank = 0; rank < 4; ++rank) {
      if (ranks_[rank]->decision) changed.push_back(rank);
    }
    return changed;
  }

  std::vector<Bytes> caps_;
  std::vector<StepSchedule> own_;
};

TEST_F(ShortRankJobTest, CommitsSchedulesThatFitFromOneStepOn) {
  run(8);
  ASSERT_FALSE(changed().empty());
  const std::int64_t from = ranks_[changed()[0]]->decision->from_step;
  EXPECT_GT(from, 0);
  for (const auto& rank : ranks_) EXPECT_EQ(rank->ended, std::vector<std::string>{""});
  for (const std::size_t rank : changed()) {
    const RankJob::Decision& decision = *ranks_[rank]->decision;
    EXPECT_EQ(decision.from_step, from);
    EXPECT_EQ(decision.trace.signature, traces_[rank].signature);
    EXPECT_TRUE(decision.schedule.planner.ends_with("job")) << decision.schedule.planner;
    const auto& [step, schedule, planner] = decision.schedule;
    ASSERT_EQ(scheduler::validate(step.graph, schedule).value_or(""), "");
    EXPECT_LE(scheduler::simulate(step.graph, schedule).peak_bytes, caps_[rank]);
    EXPECT_LT(replayed(decision.schedule), replayed(own_[rank]));
    // And what it records next is run by the same plan.
    const auto next = ranks_[rank]->job->follow(
        traces_[rank], own_[rank],
        {.cap_bytes = caps_[rank], .planning_time = std::chrono::minutes(10), .planner = "greedy"});
    ASSERT_TRUE(next);
    EXPECT_EQ(next->schedule.steps, schedule.steps);
  }
}

// Another round comes to nothing: every rank fits by now. Who had changed its plan goes back to its
// own, the others never left theirs.
TEST_F(ShortRankJobTest, KeepsItsOwnPlanWhereAnotherRoundComesToNothing) {
  run(8);
  const std::vector<std::size_t> before = changed();
  ASSERT_FALSE(before.empty());
  for (const auto& rank : ranks_) rank->decision.reset();
  for (std::size_t rank = 0; rank < 4; ++rank) note(rank, false, kBudget);
  run(30);
  EXPECT_EQ(changed(), before);
  for (const std::size_t rank : before) {
    const RankJob::Decision& decision = *ranks_[rank]->decision;
    EXPECT_EQ(decision.from_step, 0);  // at once
    EXPECT_EQ(replayed(decision.schedule), 0);
    EXPECT_EQ(ranks_[rank]->ended.back(), kFits);
  }
}

// Rank 1's store is gone: it keeps the schedule that it has, alone, and what it records next opens
// another one. The four agree again over that.
TEST_F(ShortRankJobTest, OpensItsStoreAgainWhereItWasLost) {
  run(8);
  const std::vector<std::size_t> before = changed();
  ASSERT_FALSE(before.empty());
  for (const auto& rank : ranks_) rank->faults->broken = true;
  run(10);
  for (const auto& rank : ranks_) {
    EXPECT_FALSE(rank->job->takesPart());
    EXPECT_EQ(rank->job->nextPoll(), RankJob::Time::max());
    EXPECT_TRUE(rank->said.empty());  // nothing was under way
    EXPECT_EQ(rank->ended.size(), 1U);
    rank->decision.reset();
  }
  for (std::size_t rank = 0; rank < 4; ++rank) noteShort(rank);
  run(30);
  EXPECT_EQ(changed(), before);
  for (const auto& rank : ranks_) {
    EXPECT_EQ(rank->groups.size(), 2U);
    EXPECT_EQ(rank->ended, (std::vector<std::string>{"", ""}));
  }
}

// A store that is lost in mid-round ends it for that rank; the others run into a time-out.
TEST_F(ShortRankJobTest, ALostStoreEndsTheRound) {
  ranks_[1]->faults->calls_left = 3;
  run(2);
  EXPECT_EQ(ranks_[1]->ended.size(), 1U);
  EXPECT_EQ(ranks_[1]->said.size(), 1U);
  EXPECT_FALSE(ranks_[1]->decision);
}

// The group is formed again under another name: its store is another one, and all agree once more.
TEST_F(ShortRankJobTest, AgreesAgainInAnotherGroup) {
  run(8);
  const std::vector<std::size_t> before = changed();
  ASSERT_FALSE(before.empty());
  const std::string first = traces_[0].group, second = first + " again";
  for (std::size_t rank = 0; rank < 4; ++rank) {
    ranks_[rank]->decision.reset();
    traces_[rank].group = second;
    noteShort(rank);
  }
  run(8);
  EXPECT_EQ(changed(), before);
  for (const auto& rank : ranks_) {
    EXPECT_EQ(rank->groups, (std::vector<std::string>{first, second}));
    EXPECT_EQ(rank->ended, (std::vector<std::string>{"", ""}));
    EXPECT_TRUE(rank->said.empty());
  }
}

}  // namespace
}  // namespace ebbtide::plugin
