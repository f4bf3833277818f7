#include "job/job_agreement.hpp"

#include <gtest/gtest.h>

#include <chrono>
#include <stdexcept>
#include <string>

#include "agreement_expectations.hpp"
#include "job/job_plan.hpp"
#include "simulated_job.hpp"

namespace ebbtide::plugin {
namespace {

TEST(JobAgreement, AllUseOnePlanFromOneStepOn) {
  for (const std::int32_t size : {1, 2, 4, 64}) {
    for (const double step_seconds : {0.01, 0.4, 3.0}) {
      SimulatedJob job(size, 1);
      job.step_seconds = step_seconds;
      job.run(30);
      SCOPED_TRACE(size);
      expectAgreed(job);
      // Each knew before the step came: a second and two steps are more than a look takes.
      for (std::size_t i = 0; i < job.size(); ++i)
        EXPECT_LT(job.rank(i).commits[0].at_step, job.rank(i).commits[0].step);
      EXPECT_EQ(keys(job), (Strings{"ebbtide/000000000000004d-1/outcome",
                                    "ebbtide/000000000000004d-1/verdict", "ebbtide/round"}));
    }
  }
}

TEST(JobAgreement, WithoutReportsNothingIsAsked) {
  SimulatedJob job(2);
  job.rank(0).start_seconds = job.rank(1).start_seconds = 1e6;
  job.run(100);
  EXPECT_EQ(job.rank(0).agreement->nextPoll(), JobAgreement::Time::max());
  job.rank(0).agreement->poll({}, {});
  EXPECT_EQ(job.rank(0).faults->calls, 0);
}

TEST(JobAgreement, RanksThatNeverComeCostATimeOut) {
  SimulatedJob job(8);
  for (const std::size_t i : {3, 5, 6}) job.rank(i).start_seconds = 1e6;
  job.run(59);
  EXPECT_TRUE(job.rank(0).said.empty());
  job.run(65);
  EXPECT_EQ(job.rank(0).said,
            Strings{"no plan for the whole job: ranks 3, 5-6 did not report within 60 s; each rank "
                    "trains on with its own"});
  for (const std::size_t i : {0, 1, 2, 4, 7}) {
    EXPECT_EQ(job.rank(i).kept, Strings{"some ranks did not report in time"}) << i;
    EXPECT_TRUE(job.rank(i).commits.empty());
  }
  job.run(3000);  // nor is there another try
  EXPECT_EQ(job.rank(0).said.size(), 1u);
  EXPECT_EQ(job.contents()["ebbtide/round"], "000000000000004d 1");
}

TEST(JobAgreement, ARankThatComesLateGetsARoundOfItsOwn) {
  SimulatedJob job(4);
  job.rank(2).start_seconds = 90;
  job.run(300);
  EXPECT_EQ(job.rank(0).said.size(), 1u);  // of the first round
  for (std::size_t i = 0; i < 4; ++i) {
    ASSERT_EQ(job.rank(i).commits.size(), 1u) << i;
    EXPECT_EQ(job.rank(i).commits[0].plan, job.planNow());
  }
  EXPECT_TRUE(job.rank(2).kept.empty());  // it had no part in the first round
  EXPECT_EQ(keys(job).size(), 5u) << "ask, round, verdict, outcome, and the first verdict";
}

// It reported in time, and rank 0 did not see it in time: another round, as for one that was late.
TEST(JobAgreement, AReportThatIsSeenLateGetsARoundOfItsOwn) {
  SimulatedJob job(2);
  job.rank(1).faults->delays = [&job] { return job.now() < 65; };
  job.run(64);
  EXPECT_EQ(job.rank(1).kept, Strings{"some ranks did not report in time"});
  job.run(200);
  for (std::size_t i = 0; i < 2; ++i) EXPECT_EQ(job.rank(i).commits.size(), 1u) << i;
}

TEST(JobAgreement, RankZeroMayBeTheLateOne) {
  SimulatedJob job(3);
  job.rank(0).start_seconds = 400;  // the others look seldom by then
  job.run(460);
  expectAgreed(job);
}

TEST(JobAgreement, OtherVersionsAreNamedWithTheirRanks) {
  SimulatedJob job(4);
  job.rank(2).report.versions.torch = "2.12.0";
  job.run(30);
  expectOwnPlans(job,
                 "the versions differ: ranks 0-1, 3: ebbtide 0.1.0 with torch 2.11.0+cpu; rank 2: "
                 "ebbtide 0.1.0 with torch 2.12.0");
}

TEST(JobAgreement, OtherVersionsMayWriteReportsThatNobodyUnderstands) {
  SimulatedJob job(2);
  job.rank(1).faults->damage = [](const std::string& key, std::string& value) {
    if (key.find("/report/") != std::string::npos) value = "ebbtide-job 5 0.2.0 2.11.0\n\x01\x02";
  };
  job.run(30);
  expectOwnPlans(job,
                 "the versions differ: rank 0: ebbtide 0.1.0 with torch 2.11.0+cpu; rank 1: "
                 "ebbtide 0.2.0 with torch 2.11.0");
}

TEST(JobAgreement, AReportThatIsNotUnderstoodIsNamed) {
  SimulatedJob job(2);
  job.rank(1).faults->damage = [](const std::string& key, std::string& value) {
    if (key.find("/report/") != std::string::npos) value.back() ^= 1;
  };
  job.run(30);
  expectOwnPlans(job, "the report of rank 1 is not understood: what is packed in it is damaged");
}

TEST(JobAgreement, ARankThatCannotBePlannedSaysSoAtOnce) {
  SimulatedJob job(3);
  job.rank(1).report.unable = "its sends and receives are not understood";
  job.run(10);
  expectOwnPlans(job, "rank 1: its sends and receives are not understood");
}

// 10,000 numbers of 30 random bits are 37 KB, however they are packed: over 20 KB.
TEST(JobAgreement, AReportThatIsTooLargeIsNotSent) {
  SimulatedJob job(2);
  std::mt19937_64 random(1);
  for (int i = 0; i < 10'000; ++i)
    job.rank(1).report.chunks.push_back(
        {.own_replay_ns = static_cast<std::int64_t>(random() >> 34)});
  job.run(10);
  ASSERT_EQ(job.rank(0).kept.size(), 1u);
  EXPECT_EQ(job.rank(0).kept[0].rfind("rank 1: its report takes ", 0), 0u) << job.rank(0).kept[0];
}

TEST(JobAgreement, NoPlanIsAReason) {
  SimulatedJob job(2);
  job.plan = [](const auto&) { return JobPlanning{std::nullopt, "rank 1 needs 3 GiB", true}; };
  job.run(10);
  expectOwnPlans(job, "rank 1 needs 3 GiB");
}

TEST(JobAgreement, ThatNothingIsShortIsNotSaid) {
  SimulatedJob job(2);
  job.plan = [](const auto&) { return JobPlanning{std::nullopt, "nothing is short", false}; };
  job.run(10);
  EXPECT_TRUE(job.rank(0).said.empty());
  EXPECT_EQ(job.rank(0).kept, Strings{"nothing is short"});
  EXPECT_EQ(job.rank(1).kept, Strings{"nothing is short"});
}

TEST(JobAgreement, WhatRankZeroFindsIsToldWithAPlanOrWithout) {
  for (const bool plans : {true, false}) {
    SimulatedJob job(3);
    job.plan = [plans](const auto& reports) {
      JobPlanning planning{.why_not = "nothing is short", .needed = false, .findings = "found"};
      if (plans) planning.plan = SimulatedJob::planFor(reports);
      return planning;
    };
    job.on_find = [](SimulatedJob::Rank& rank) {
      EXPECT_TRUE(rank.prepared.empty() && rank.kept.empty());
    };
    job.run(30);
    for (std::size_t i = 0; i < job.size(); ++i) {
      EXPECT_EQ(job.rank(i).found, Strings{"found"});
      EXPECT_EQ(job.rank(i).commits.size(), plans ? 1U : 0U);
    }
  }
}

// Rank 1 is told something that changes its budget: it is out until it has another report. The
// others wait for it, but not for the ten seconds between rounds.
TEST(JobAgreement, RanksThatAreToldSomethingReportAnewAtOnce) {
  SimulatedJob job(2);
  job.plan = [](const std::vector<RankReport>& reports) {
    if (reports[0].budget_bytes == 2000) return JobPlanning{.plan = SimulatedJob::planFor(reports)};
    return JobPlanning{
        .why_not = "told first", .needed = false, .again = true, .findings = "found"};
  };
  job.on_find = [&job](SimulatedJob::Rank& rank) {
    if (&rank == &job.rank(1)) {
      rank.agreement->withdraw();
    } else {
      rank.report.budget_bytes = 2000;
      rank.agreement->report(rank.report);
    }
  };
  job.run(8);
  EXPECT_EQ(job.contents()["ebbtide/round"], "000000000000004d 2");
  EXPECT_TRUE(job.rank(0).commits.empty());
  job.rank(1).report.budget_bytes = 3000;
  job.report(1);
  job.run(20);
  for (std::size_t i = 0; i < job.size(); ++i) {
    EXPECT_EQ(job.rank(i).found, Strings{"found"});
    EXPECT_EQ(job.rank(i).again, Strings{"told first"});
    EXPECT_TRUE(job.rank(i).kept.empty() && job.rank(i).said.empty());
    ASSERT_EQ(job.rank(i).commits.size(), 1U) << testing::PrintToString(job.rank(i).debugged);
    EXPECT_EQ(job.rank(i).commits[0].plan, job.planNow());
  }
  job.rank(1).report.budget_bytes = 4000;  // the third round removes what the first one left
  job.report(1);
  job.run(60);
  EXPECT_EQ(job.rank(0).commits.size(), 2U);
  for (const std::string& key : keys(job)) EXPECT_EQ(key.find("findings"), std::string::npos);
}

// Rank 1 is busy for 20 s while rank 0 tells, and opens the next round at once: it reads what it
// was told all the same, and has its part in that round.
TEST(JobAgreement, WhatASlowRankWasToldOutlastsTheNextRound) {
  SimulatedJob job(2);
  job.plan = [&job](const std::vector<RankReport>& reports) {
    if (reports[1].budget_bytes == 2000) return JobPlanning{.plan = SimulatedJob::planFor(reports)};
    job.rank(1).next_seconds = job.now() + 20;
    return JobPlanning{
        .why_not = "told first", .needed = false, .again = true, .findings = "found"};
  };
  job.on_find = [](SimulatedJob::Rank& rank) {
    rank.report.budget_bytes = 2000;
    rank.agreement->report(rank.report);
  };
  job.run(19);
  EXPECT_EQ(job.contents()["ebbtide/round"], "000000000000004d 2");
  EXPECT_TRUE(job.rank(1).found.empty());
  job.run(60);
  for (std::size_t i = 0; i < job.size(); ++i) {
    EXPECT_EQ(job.rank(i).found, Strings{"found"});
    EXPECT_EQ(job.rank(i).again, Strings{"told first"});
    EXPECT_TRUE(job.rank(i).kept.empty());
    EXPECT_EQ(job.rank(i).commits.size(), 1U);
  }
}

TEST(JobAgreement, PlanningThatFailsIsAReason) {
  SimulatedJob job(2);
  job.plan = [](const auto&) -> JobPlanning { throw std::runtime_error("no memory"); };
  job.run(10);
  expectOwnPlans(job, "planning failed: no memory");
}

TEST(JobAgreement, APlanThatTheStoreCannotHoldIsNotSent) {
  SimulatedJob job(1);
  job.plan = [](const auto&) { return JobPlanning{std::string(kMostStoredBytes + 1, 'x')}; };
  job.run(10);
  ASSERT_EQ(job.rank(0).kept.size(), 1u);
  EXPECT_EQ(job.rank(0).kept[0], "the plan takes 4194305 bytes");  // before it is packed
}

TEST(JobAgreement, OneRankThatCannotRunItKeepsAllFromIt) {
  SimulatedJob job(4);
  job.rank(2).prepare = [](const std::string&) { return "needs 3.1 GiB of 3 GiB"; };
  job.run(30);
  expectOwnPlans(job, "rank 2: needs 3.1 GiB of 3 GiB");
}

TEST(JobAgreement, ARankWhoseScheduleFailsIsNamed) {
  SimulatedJob job(2);
  job.rank(1).prepare = [](const std::string&) -> std::optional<std::string> {
    throw std::runtime_error("the validator refuses it");
  };
  job.run(30);
  expectOwnPlans(job, "rank 1: the validator refuses it");
}

TEST(JobAgreement, ARankThatHasNoScheduleInTimeIsNamed) {
  SimulatedJob job(3);
  job.rank(1).faults->damage = [&job](const std::string& key, std::string&) {
    if (key.find("/report/") != std::string::npos) job.rank(1).death_seconds = job.now() + 0.1;
  };
  job.run(100);
  EXPECT_EQ(job.rank(0).said, Strings{"no plan for the whole job: rank 1 had no schedule for it "
                                      "within 60 s; each rank trains on with its own"});
  EXPECT_EQ(job.rank(2).kept, Strings{"rank 1 had no schedule for it within 60 s"});
  EXPECT_TRUE(job.rank(2).commits.empty());
}

TEST(JobAgreement, ADamagedPlanIsNotUsed) {
  SimulatedJob job(2);
  job.rank(0).faults->damage = [](const std::string& key, std::string& value) {
    if (key.find("/plan/") != std::string::npos) value.back() ^= 1;
  };
  job.run(30);
  expectOwnPlans(job, "rank 1: its plan has another hash");
}

// Of a process that was there before, say.
TEST(JobAgreement, APlanForAnotherReportIsNotUsed) {
  SimulatedJob job(2);
  job.rank(1).faults->damage = [&job](const std::string& key, std::string& value) {
    if (key.find("/report/") == std::string::npos) return;
    RankReport other = job.rank(1).report;
    other.budget_bytes += 1;
    value = toText(other);
  };
  job.run(30);
  expectOwnPlans(job, "rank 1: the plan is for another report");
}

TEST(JobAgreement, WithRecheckEachRankPlansForItself) {
  SimulatedJob job(3);
  int plans = 0;
  job.rank(2).options.recheck = true;
  job.makeAgreement(2);
  job.plan = [&plans](const auto& reports) {
    ++plans;
    return JobPlanning{SimulatedJob::planFor(reports), "", true};
  };
  job.run(30);
  EXPECT_EQ(plans, 2);
  expectAgreed(job);
  job.plan = [&plans](const auto&) {
    return JobPlanning{"plan " + std::to_string(++plans), "", true};
  };
  job.rank(1).report.budget_bytes = 500;
  job.report(1);
  job.run(60);
  EXPECT_EQ(job.rank(1).kept, Strings{"rank 2: it plans otherwise from the same reports: " +
                                      jobHash("plan 4") + ", rank 0 " + jobHash("plan 3")});
}

TEST(JobAgreement, AnotherBudgetAsksForAnotherPlan) {
  SimulatedJob job(4);
  job.run(30);
  expectAgreed(job, 1);
  job.rank(3).report.budget_bytes = 800;
  job.report(3);
  job.run(60);
  expectAgreed(job, 2);
  job.report(3);  // the same again: nothing to agree on
  job.run(90);
  expectAgreed(job, 2);
  // All at once, and one of them twice: one round or two, never three.
  for (std::size_t i = 0; i < 4; ++i) {
    job.rank(i).report.budget_bytes = 700;
    job.report(i);
  }
  job.run(106);
  job.rank(1).report.budget_bytes = 600;
  job.report(1);
  job.run(200);
  const std::size_t commits = job.rank(0).commits.size();
  EXPECT_TRUE(commits == 3 || commits == 4) << commits;
  expectAgreed(job, commits);
  EXPECT_LE(keys(job).size(), 6u);
}

TEST(JobAgreement, AReportThatChangesMeanwhileIsNotPlannedFor) {
  SimulatedJob job(2);
  job.plan = [&job](const auto& reports) {
    if (job.rank(1).report.budget_bytes == 1000) {
      job.rank(1).report.budget_bytes = 700;
      job.report(1);
    }
    return JobPlanning{SimulatedJob::planFor(reports), "", true};
  };
  job.run(60);
  EXPECT_EQ(job.rank(0).kept, Strings{"rank 1: its program or budget changed meanwhile"});
  ASSERT_EQ(job.rank(1).commits.size(), 1u);
  EXPECT_EQ(job.rank(1).commits[0].plan, job.planNow());
}

// A gap of 10 s, 20 s, … 640 s, 1,280 s and 2,560 s between rounds: in 4,000 s no more than 9.
TEST(JobAgreement, RoundsThatFailBecomeRare) {
  SimulatedJob job(1);
  int plans = 0;
  job.plan = [&plans](const auto&) {
    return JobPlanning{std::nullopt, std::to_string(++plans), true};
  };
  for (int second = 1; second < 4000; second += 7) {
    job.rank(0).report.budget_bytes = second;
    if (second > 1) job.report(0);
    job.run(second);
  }
  EXPECT_GE(plans, 7);
  EXPECT_LE(plans, 10);
}

TEST(JobAgreement, StepsCountedFromElsewhereDelayNobody) {
  SimulatedJob job(3);
  job.rank(0).first_step = 1'000'000;
  job.rank(2).first_step = 7;
  job.run(30);
  for (std::size_t i = 0; i < 3; ++i) {
    ASSERT_EQ(job.rank(i).commits.size(), 1u);
    // A margin of 1 s is 3 steps of 0.4 s.
    EXPECT_LE(job.rank(i).commits[0].step, job.rank(i).commits[0].at_step + 4) << i;
  }
}

}  // namespace
}  // namespace ebbtide::plugin
