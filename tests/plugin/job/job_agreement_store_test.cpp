// JobAgreement and its store: what it leaves there, what it does without one, and how much it
// exchanges.
#include <gtest/gtest.h>

#include <chrono>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <utility>

#include "agreement_expectations.hpp"
#include "job/agreement_leader.hpp"
#include "job/job_agreement.hpp"
#include "job/job_plan.hpp"
#include "simulated_job.hpp"

namespace ebbtide::plugin {
namespace {

TEST(JobAgreement, AfterTheLastStepTheStoreIsLeftAlone) {
  SimulatedJob job(2);
  job.trains_until = 50;
  job.run(56);
  expectAgreed(job);
  const std::int64_t calls = job.rank(1).faults->calls;
  job.run(200);
  EXPECT_EQ(job.rank(1).faults->calls, calls);
  job.rank(1).faults->broken = true;
  job.run(300);
  EXPECT_TRUE(job.rank(1).agreement->alive());
}

// Rank 1 finds the first round over, and asks for another one when the last step is run: once. Rank
// 0 looks no more, and the ask stays in the store.
TEST(JobAgreement, ALateRankAsksNoMoreAfterTheLastStep) {
  SimulatedJob job(2);
  job.rank(1).start_seconds = 90;
  job.trains_until = 71;
  job.run(110);
  EXPECT_EQ(job.contents()["ebbtide/ask"], "000000000000004d 2");
  EXPECT_EQ(job.contents()["ebbtide/round"], "000000000000004d 1");
  const std::int64_t calls = job.rank(1).faults->calls;
  job.run(200);
  EXPECT_EQ(job.rank(1).faults->calls, calls);
  job.trains_until = 1e9;  // and where steps go on, so does it
  job.run(300);
  for (std::size_t i = 0; i < 2; ++i) EXPECT_EQ(job.rank(i).commits.size(), 1u) << i;
}

// Report, answer and plan are removed, each in 1.1 s: after two of them 2 s are over, and the third
// is left to the next look. The clock of the test stands still within one.
TEST(JobAgreement, AStoreThatRemovesSlowlyHoldsUpNoLookForLong) {
  SimulatedJob job(1);
  std::map<double, int> removed;  // by when the look was
  job.rank(0).faults->on_remove = [&job, &removed] {
    std::this_thread::sleep_for(std::chrono::milliseconds(1100));
    ++removed[job.now()];
  };
  job.run(30);
  expectAgreed(job);
  int all = 0;
  for (const auto& [at, count] : removed) {
    EXPECT_LE(count, 2) << at;
    all += count;
  }
  EXPECT_EQ(all, 3);
  EXPECT_EQ(keys(job).size(), 3u) << "outcome, verdict and round";
}

// Rank 0 of three. Its store takes 2.1 s for one call: longer than the 2 s of a row of calls.
class LateStoreTest : public testing::Test {
 protected:
  LateStoreTest() {
    callbacks_.plan = [](const auto& reports) {
      return JobPlanning{.plan = SimulatedJob::planFor(reports)};
    };
    callbacks_.say = [this](const std::string& text) { said_.push_back(text); };
    look(0);  // announces the round
    look(1);  // asks two ranks, and none has reported
  }
  void look(int later_seconds) {
    now_ += std::chrono::seconds(later_seconds);
    leader_.look(store_, now_, {});
  }
  void report(std::int32_t rank) {
    (*contents_)[round_.reportKey(rank)] = toText(pipelineReport(rank, 3));
  }
  // The slow call is in the first look after the 60 s for reports.
  void takesLongOnce() {
    store_.faults()->on_get = [takes_long = true]() mutable {
      if (std::exchange(takes_long, false))
        std::this_thread::sleep_for(std::chrono::milliseconds(2100));
    };
    look(61);
  }
  // Empty: there is none yet.
  std::string verdict() const {
    const auto found = contents_->find(round_.verdictKey());
    return found != contents_->end() ? found->second : "";
  }
  // A busy machine may also cut a row of calls.
  void lookUntilVerdict() {
    for (int looks = 0; looks < 100 && verdict().empty(); ++looks) look(1);
  }

  const std::shared_ptr<JobStoreContents> contents_ = std::make_shared<JobStoreContents>();
  const JobRound round_{77, 1};
  MemoryJobStore store_{contents_};
  Strings said_;
  JobCallbacks callbacks_;
  AgreementLeader leader_{3, callbacks_, {.times = {}, .job = 77}};
  AgreementLeader::Time now_{};
};

TEST_F(LateStoreTest, ARankThatWasNotAskedIsNotSilent) {
  for (const std::int32_t rank : {0, 1, 2}) report(rank);
  takesLongOnce();
  EXPECT_EQ(verdict(), "");
  lookUntilVerdict();
  EXPECT_EQ(verdict().rfind("plan ", 0), 0U) << verdict();
  EXPECT_TRUE(said_.empty());
}

TEST_F(LateStoreTest, OnceEachWasAskedTheSilentOnesAreNamed) {
  report(0);
  takesLongOnce();
  EXPECT_EQ(verdict(), "");
  lookUntilVerdict();
  EXPECT_EQ(verdict(), "missing 1 2");
  EXPECT_EQ(said_, Strings{"no plan for the whole job: ranks 1-2 did not report within 60 s; each "
                           "rank trains on with its own"});
}

TEST(JobAgreement, APlannerThatIsStoppedTellsNobody) {
  SimulatedJob job(2);
  job.plan = [](const auto&) { return JobPlanning{.stopped = true}; };
  job.run(10);
  for (const std::string& key : keys(job)) EXPECT_EQ(key.find("verdict"), std::string::npos);
  for (std::size_t i = 0; i < 2; ++i)
    EXPECT_TRUE(job.rank(i).kept.empty() && job.rank(i).said.empty());
}

TEST(JobAgreement, ItsEndCallsNothing) {
  SimulatedJob job(2);
  job.run(0.1);  // in mid-round
  ASSERT_TRUE(job.rank(1).commits.empty());
  for (std::size_t i = 0; i < 2; ++i) {
    const std::int64_t calls = job.rank(i).faults->calls;
    job.rank(i).agreement.reset();
    EXPECT_EQ(job.rank(i).faults->calls, calls);
    EXPECT_TRUE(job.rank(i).kept.empty());
    job.rank(i).death_seconds = 0;
  }
}

TEST(JobAgreement, WhatAnEarlierJobLeftIsNotUsed) {
  for (int tenths = 0; tenths < 12; ++tenths) {  // where in its round that one ended
    SimulatedJob job(3);
    job.run(0.1 * tenths);
    for (std::size_t i = 0; i < 3; ++i) {
      job.rank(i).options.job = 78;
      job.rank(i).report.budget_bytes = 123;
      job.rank(i).commits.clear();
      job.makeAgreement(static_cast<std::int32_t>(i));
    }
    job.rank(0).start_seconds = 20;  // the others find the old round first
    job.run(60);
    for (std::size_t i = 0; i < 3; ++i) {
      ASSERT_EQ(job.rank(i).commits.size(), 1u) << i << ", " << tenths;
      EXPECT_EQ(job.rank(i).commits[0].plan, job.planNow()) << i << ", " << tenths;
    }
  }
}

// As after an elastic restart on the same store, with a rank less.
TEST(JobAgreement, TheJobMayFormAgainWithOtherRanks) {
  SimulatedJob job(3);
  job.run(30);
  SimulatedJob smaller(2);
  smaller.contents() = job.contents();
  for (std::size_t i = 0; i < 2; ++i) {
    smaller.rank(i).options.job = 78;
    smaller.makeAgreement(static_cast<std::int32_t>(i));
  }
  smaller.run(30);
  expectAgreed(smaller);
}

TEST(JobAgreement, AStoreThatBreaksIsSaidOnce) {
  SimulatedJob whole(3);
  whole.run(30);
  const std::int64_t calls = whole.rank(1).faults->calls;
  ASSERT_GT(calls, 8);
  for (std::int64_t call = 0; call < calls; ++call) {
    for (const std::size_t broken : {0u, 1u}) {
      SimulatedJob job(3);
      job.rank(broken).faults->calls_left = call;
      job.run(400);
      SimulatedJob::Rank& rank = job.rank(broken);
      EXPECT_FALSE(rank.agreement->alive());
      EXPECT_EQ(rank.agreement->nextPoll(), JobAgreement::Time::max());
      EXPECT_LE(rank.said.size(), 1u) << call;
      if (rank.commits.empty()) {
        EXPECT_EQ(rank.said,
                  Strings{"the job's store cannot be used any more: the connection was closed; "
                          "this rank trains on with its own plan"})
            << call;
        EXPECT_EQ(rank.kept.size(), 1u);
      }
    }
  }
}

// A short job ends in mid-round.
TEST(JobAgreement, ThatTheProgramLetsGoOfTheStoreIsNotSaid) {
  SimulatedJob job(2);
  job.run(0.1);
  for (std::size_t i = 0; i < 2; ++i) job.rank(i).faults->gone = true;
  job.run(400);
  for (std::size_t i = 0; i < 2; ++i) {
    EXPECT_FALSE(job.rank(i).agreement->alive());
    EXPECT_EQ(job.rank(i).kept.size(), 1u);
    EXPECT_TRUE(job.rank(i).said.empty());
  }
}

TEST(JobAgreement, AStoreMayBeReachedLate) {
  SimulatedJob job(2);
  job.rank(0).faults->connects = job.rank(1).faults->connects = false;
  job.run(20);
  EXPECT_EQ(job.rank(0).faults->calls + job.rank(1).faults->calls, 0);
  job.rank(0).faults->connects = job.rank(1).faults->connects = true;
  job.run(40);
  expectAgreed(job);
}

TEST(JobAgreement, AStoreThatIsNeverReachedIsSaidOnce) {
  SimulatedJob job(1);
  job.rank(0).faults->connects = false;
  job.run(400);
  EXPECT_EQ(job.rank(0).said,
            Strings{"the job's store cannot be used any more: it could not be reached; this rank "
                    "trains on with its own plan"});
  EXPECT_EQ(job.rank(0).kept.size(), 1u);
}

// Nobody waits for it longer than a time-out, wherever it stops.
TEST(JobAgreement, ARankMayDieInEachState) {
  for (const std::size_t dead : {0u, 1u}) {
    for (int tenths = 0; tenths < 30; ++tenths) {
      SimulatedJob job(3);
      job.rank(dead).death_seconds = 0.05 + 0.1 * tenths;
      job.run(400);
      for (std::size_t i = 0; i < 3; ++i) {
        if (i == dead) continue;
        SimulatedJob::Rank& rank = job.rank(i);
        EXPECT_EQ(rank.commits.size() + rank.kept.size(), 1u) << dead << ", " << tenths;
        EXPECT_EQ(rank.commits.size(), job.rank(3 - dead - i).commits.size());
        if (dead == 0 && rank.commits.empty()) {
          EXPECT_EQ(rank.kept, Strings{"rank 0 said nothing for 150 s"});
        }
      }
    }
  }
}

// 64 stages, 256 microbatches, ten points a curve, with the most that such a job can have to say:
// the replays of each forward and what is free before its backward are any of 201 numbers, 7.65
// bits each, times and sizes any of 9 to 11 digits. Of a rank's report its 256 replays are 245
// bytes then, ten points of four such numbers 180, the rest some 200: 625, as packed text up to one
// and a half times that. Of the plan the 16,384 numbers are 15.7 KB, 23.5 KB as packed text, and 64
// hashes of 17 bytes in front. Keys have 39 bytes: rank 0 asks for 64 reports and answers, in a few
// looks for two or three more, and removes as many. So it reads 60 KB and writes 25 + 10.
TEST(JobAgreement, ALargeJobExchangesLittle) {
  constexpr std::int32_t kRanks = 64, kMicrobatches = 256;
  std::mt19937_64 random(5);
  const auto any = [&random](std::int64_t least, std::int64_t most) {
    return least + static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(most - least));
  };
  SimulatedJob job(kRanks);
  JobPlan plan;
  plan.makespan_ns = 30'000'000'000;
  plan.free_unit_ns = 1'234'567;
  for (std::int32_t rank = 0; rank < kRanks; ++rank) {
    RankReport& report = job.rank(static_cast<std::size_t>(rank)).report;
    report = pipelineReport(rank, kRanks, 1, kMicrobatches, 10);
    for (auto& action : report.actions) {
      for (auto& message : action.messages) message.bytes = 33'554'432;
    }
    const std::int64_t unit_ns = any(100'000, 1'000'000);
    for (auto& chunk : report.chunks) chunk.own_replay_ns = unit_ns * any(0, 201);
    for (auto& ns : report.classes[0].busy_ns) ns = any(100'000'000, 1'000'000'000);
    for (auto& point : report.classes[0].points) {
      point.held_bytes = point.held_bytes * 1'000'000'000 + any(0, 1'000'000'000);
      point.forward_bytes = point.held_bytes + any(0, 10'000'000'000);
      point.backward_bytes = point.held_bytes + any(0, 10'000'000'000);
      point.recompute_ns = point.recompute_ns * 10'000'000 + any(0, 10'000'000);
    }
    for (Bytes* bytes : {&report.budget_bytes, &report.fixed_bytes, &report.own_peak_bytes})
      *bytes = any(10'000'000'000, 80'000'000'000);
    JobPlan::Rank& of = plan.ranks.emplace_back();
    of.peak_bytes = any(10'000'000'000, 80'000'000'000);
    of.points.assign(kMicrobatches, 4);  // but in the warm-up
    std::fill_n(of.points.begin(), kRanks - rank, 7);
    for (std::int32_t i = 0; i < kMicrobatches; ++i)
      of.free.push_back(static_cast<std::int32_t>(any(0, 201)));
  }
  const std::string text = toText(plan);
  job.plan = [&text](const auto&) { return JobPlanning{text, "", true}; };
  job.run(30);
  for (std::size_t i = 0; i < kRanks; ++i) {
    ASSERT_EQ(job.rank(i).commits.size(), 1u) << i;
    EXPECT_LT(toText(job.rank(i).report).size(), 1000u) << i;
    const JobTraffic& traffic = job.rank(i).traffic;
    EXPECT_GT(traffic.written_bytes, 500) << i;
    EXPECT_LT(traffic.written_bytes + traffic.read_bytes, i == 0 ? 100'000 : 30'000) << i;
  }
}

// All others come 50 s after rank 0, which looks 250 times, each time for two of 63 reports under
// keys of 39 bytes: 20 KB; and as a member for the verdict (34) and the round (13, which says 18).
TEST(JobAgreement, RanksThatComeLateCostRankZeroLittle) {
  SimulatedJob job(64);
  for (std::size_t i = 1; i < 64; ++i) job.rank(i).start_seconds = 50;
  job.run(50);
  const JobTraffic& traffic = job.rank(0).traffic;
  EXPECT_GT(traffic.written_bytes, 200 * 39);
  EXPECT_LT(traffic.written_bytes + traffic.read_bytes, 250 * (2 * 39 + 65) + 1000);
  job.run(100);
  expectAgreed(job);
}

// All others die before they answer: in turn each is asked, two in a look.
TEST(JobAgreement, ARankThatCannotIsHeardBeforeTheOthersAnswer) {
  SimulatedJob job(64);
  for (std::size_t i = 1; i < 64; ++i) {
    job.rank(i).prepare = [&job, i](const std::string&) -> std::optional<std::string> {
      if (i == 40) return "needs 3.1 GiB of 3 GiB";
      job.rank(i).death_seconds = job.now();
      job.rank(i).faults->delays = [] { return true; };
      return std::nullopt;
    };
  }
  job.run(15);
  ASSERT_EQ(job.rank(0).kept.size(), 1u);
  EXPECT_EQ(job.rank(0).kept[0], "rank 40: needs 3.1 GiB of 3 GiB");
}

}  // namespace
}  // namespace ebbtide::plugin
