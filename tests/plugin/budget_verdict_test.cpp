#include "runtime/budget/budget_verdict.hpp"

#include <cstdint>
#include <limits>
#include <random>

#include "ebbtide/scheduler/graph_builder.hpp"
#include "judged_verdict.hpp"

namespace ebbtide::plugin {
namespace {

using test::BudgetVerdictTest;
using test::stepThatNeeds;

// -----------------------------------------------------------------------------------------------
// the run's own budget

TEST_F(BudgetVerdictTest, TwoStepsThatHoldDecide) {
  begin();
  end();
  begin();
  end();
  EXPECT_FALSE(decided());
  EXPECT_GT(trained_.memory().overrunLimitBytes(), 0);  // until then it may go over
  begin();
  EXPECT_TRUE(decided());
  EXPECT_FALSE(refused());
  EXPECT_EQ(trained_.memory().overrunLimitBytes(), 0);
  EXPECT_EQ(trained_.memory().allocate(kOver, allocator::Stream::kDefault), nullptr);
  EXPECT_TRUE(warned_.empty());
}

// 16 MiB were taken: the budget that trains leaves 2 more, which are more than 3 %.
TEST_F(BudgetVerdictTest, ABudgetThatAStepWentOverIsRefusedByTheOneThatTrains) {
  stepOver();
  ASSERT_EQ(warned_.size(), 1U);
  EXPECT_EQ(warned_[0],
            "step 1 needed at least 16.0 MiB, more than the budget of 8.0 MiB: training goes on "
            "over the budget for at most 3 more steps, to find the budget that trains");
  EXPECT_FALSE(refused());
  begin();  // with the same base: it is settled
  EXPECT_TRUE(refused());
  EXPECT_EQ(verdict_.told().smallestBytes(), 18 * kMib);
  EXPECT_NE(refusal().find("which needs 16.0 MiB"), std::string::npos) << refusal();
  EXPECT_NE(refusal().find("EBBTIDE_BUDGET=18MiB"), std::string::npos) << refusal();
}

// The trace tells of 4 MiB, and 16 were mapped.
TEST_F(BudgetVerdictTest, WhatWasMappedIsNamedWhereItIsTheNeed) {
  stepOver();
  begin();
  ASSERT_TRUE(refused());
  EXPECT_NE(refusal().find("\n16.0 MiB were mapped at most, in a step or between two; the steps "
                           "alone need 4.0 MiB, most of it by aten::mm. Live when a step begins"),
            std::string::npos)
      << refusal();
}

TEST_F(BudgetVerdictTest, AnOpIsNamedWhereItsFloorIsTheNeed) {
  begin();
  goOver();
  end(kOver);
  begin();
  ASSERT_TRUE(refused());
  EXPECT_NE(refusal().find("\nMost is needed by aten::mm. Live when a step begins"),
            std::string::npos)
      << refusal();
}

// The need is a plan's peak then, and no floor with everything on the host.
TEST_F(BudgetVerdictTest, OnceNothingCanBeSpilledNoFloorIsNamed) {
  outage_.begin();
  ASSERT_TRUE(outage_.giveUp());
  begin();
  goOver();
  end(kOver);
  begin();
  ASSERT_TRUE(refused());
  EXPECT_NE(refusal().find("EBBTIDE_BUDGET=18MiB.\nLive when a step begins"), std::string::npos)
      << refusal();
}

// As a norm that is logged, or another thread's look at the network.
TEST_F(BudgetVerdictTest, StepsWithoutABackwardPassDecideNothing) {
  stepOver();
  for (int i = 0; i < 5; ++i) begin(kBase, /*trains=*/false);
  EXPECT_FALSE(refused());
  begin();
  EXPECT_TRUE(refused());
}

// Nor does what begins while no step has ended since the last one began.
TEST_F(BudgetVerdictTest, OneStepIsNotBegunTwice) {
  begin();
  goOver();
  begin();
  begin();
  EXPECT_FALSE(refused());
  end();
  begin();
  EXPECT_TRUE(refused());
}

// Twelve are asked for. One more is once something went over since.
TEST_F(BudgetVerdictTest, StepsThatNobodyRecordsAreNotAskedForWithoutAnEnd) {
  for (int i = 0; i < 12; ++i) {
    recordNone();
    begin();
    EXPECT_TRUE(to_record_.any()) << i;
    endUnseen();
  }
  recordNone();
  begin();
  EXPECT_FALSE(to_record_.any());
  goOver();
  endUnseen();
  begin();
  EXPECT_TRUE(to_record_.any());
}

TEST_F(BudgetVerdictTest, WhatAnotherBudgetHeldIsNotJudged) {
  const scheduler::Trace trace = stepThatNeeds(kNeed);
  verdict_.noteFloor(trace, scheduler::buildGraph(trace), /*alone=*/true, budget_.number() + 1);
  EXPECT_EQ(verdict_.floorBytes(), 0);
  EXPECT_EQ(verdict_.told().smallestBytes(), 0);
}

// Nothing could be recorded by which it would be judged.
TEST_F(BudgetVerdictTest, WhereEverythingIsKeptNothingIsJudgedAndNothingGoesOver) {
  keeps_everything_ = true;
  holdTwo();
  EXPECT_FALSE(decided());
  EXPECT_EQ(trained_.memory().overrunLimitBytes(), 0);
}

// -----------------------------------------------------------------------------------------------
// before the first step

// Loading took 16 MiB, and nothing can be dropped before the first step.
TEST_F(BudgetVerdictTest, WhatCameBeforeTheFirstStepIsANeed) {
  trained_.memory().limitOverrun(allocator::kUnlimited);
  goOver();
  verdict_.noteStart(/*own=*/true);
  begin();
  end();
  ASSERT_EQ(warned_.size(), 1U);
  EXPECT_EQ(warned_[0].rfind("the program, before its first step, needed at least 16.0 MiB", 0), 0U)
      << warned_[0];
}

TEST_F(BudgetVerdictTest, WhatAParentTookIsNoNeed) {
  trained_.memory().limitOverrun(allocator::kUnlimited);
  goOver();
  verdict_.noteStart(/*own=*/false);
  trained_.memory().resetPeaks();
  holdTwo();
  EXPECT_TRUE(decided());
  EXPECT_FALSE(refused());
  EXPECT_TRUE(warned_.empty());
}

// -----------------------------------------------------------------------------------------------
// a budget that was asked for, a pause

TEST_F(BudgetVerdictTest, WhatWasAskedForIsTakenBackAndNotRefused) {
  budget_.ask(std::to_string(kBudget));
  budget_.takeDue();
  stepOver();
  ASSERT_EQ(warned_.size(), 1U);
  EXPECT_EQ(warned_[0],
            "the budget of 8.0 MiB that was asked for is too small after all (steps need 16.0 "
            "MiB): the one before it holds again from the next step on");
  EXPECT_TRUE(budget_.isOpen());
  begin();
  EXPECT_FALSE(refused());
  const Held held = guard_.hold();
  budget_.takeDue();
  EXPECT_FALSE(verdict_.takeBack(held, "again"));  // that is the run's own
}

TEST_F(BudgetVerdictTest, WhatDoesNotHoldAfterAPauseIsPausedAgain) {
  for (const bool paused : {true, false}) {
    budget_.pause(paused);
    budget_.takeDue();
  }
  stepOver();
  ASSERT_EQ(warned_.size(), 1U);
  EXPECT_EQ(warned_[0],
            "after the pause the program needs more than 8.0 MiB (steps need 16.0 MiB); paused "
            "again from the next step on. Set a larger budget, then resume");
  EXPECT_TRUE(budget_.isPaused());
  begin();
  EXPECT_FALSE(refused());
}

// -----------------------------------------------------------------------------------------------
// judged anew

// As under another budget of as many bytes. What was needed is known still; what holds is proof.
TEST_F(BudgetVerdictTest, ARefusalEndsWithTheBudgetThatItWasOf) {
  stepOver();
  begin();
  ASSERT_TRUE(refused());
  {
    const Held held = guard_.hold();
    verdict_.beginAnew(held);
  }
  EXPECT_FALSE(refused());
  EXPECT_EQ(verdict_.floorBytes(), kOver);
  holdTwo();
  EXPECT_TRUE(decided());
  EXPECT_FALSE(refused());
  EXPECT_EQ(verdict_.told().smallestBytes(), kBudget);
}

TEST_F(BudgetVerdictTest, WhatHappenedUntilNowIsNoWordOnTheNextSteps) {
  begin();
  goOver();
  recordNone();
  {
    const Held held = guard_.hold();
    verdict_.judgeFromNowOn(held);
  }
  EXPECT_TRUE(to_record_.any());
  end();
  holdTwo();
  EXPECT_TRUE(decided());
  EXPECT_FALSE(refused());
}

// -----------------------------------------------------------------------------------------------
// allocations that failed

TEST_F(BudgetVerdictTest, AFailureThatIsCaughtMayBeFollowedByAnotherProgram) {
  begin();
  end();
  ASSERT_EQ(verdict_.floorBytes(), kNeed);
  verdict_.noteFailedAllocation(1);
  EXPECT_TRUE(verdict_.allocationFailed());
  const Held held = guard_.hold();
  recordNone();
  verdict_.forgetFailed(held);
  EXPECT_FALSE(verdict_.allocationFailed());
  EXPECT_EQ(verdict_.floorBytes(), 0);
  EXPECT_TRUE(to_record_.any());
}

// It would fail without us, too.
TEST_F(BudgetVerdictTest, WhatNoMachineHasIsNoFailureOfThisProgram) {
  verdict_.noteFailedAllocation(std::numeric_limits<std::size_t>::max());
  EXPECT_FALSE(verdict_.allocationFailed());
}

TEST_F(BudgetVerdictTest, AFailureChangesNoDecision) {
  holdTwo();
  verdict_.noteFailedAllocation(1);
  const Held held = guard_.hold();
  verdict_.forgetFailed(held);
  EXPECT_FALSE(verdict_.allocationFailed());
  EXPECT_TRUE(verdict_.decided(held));
  EXPECT_EQ(verdict_.floorBytes(), kNeed);
}

// -----------------------------------------------------------------------------------------------
// a rank of a pipeline

// Of the budget of 8 MiB one is kept free. With 4 more than the other 7 it needs 11, and one free.
TEST_F(BudgetVerdictTest, WhoCouldHelpIsSaidOnceAndStandsInTheRefusal) {
  may_be_advised_ = true;
  scheduler::Trace trace = stepThatNeeds(kNeed);
  trace.group_rank = 0;
  trace.group_size = 2;
  begin();
  goOver();
  end(trace);
  begin();
  ASSERT_FALSE(refused());  // it waits for advice
  ASSERT_EQ(warned_.size(), 1U);
  EXPECT_TRUE(
      warned_[0].ends_with("for at most 3 more steps, to find the budget that trains, and then for "
                           "up to 60 s, until the "
                           "other ranks of its pipeline have told who could help"))
      << warned_[0];
  trained_.refuseOverrun();
  begin();
  EXPECT_GT(trained_.memory().overrunLimitBytes(), 0);  // it is taken anew meanwhile
  warned_.clear();
  const Held held = guard_.hold();
  JobFindings::Rank findings;
  findings.stages = {1};
  findings.excess_bytes = 4 * kMib;
  for (int i = 0; i < 2; ++i) verdict_.fallShort(held, findings);
  ASSERT_EQ(warned_.size(), 1U);
  const std::string needs = "this rank needs 12.0 MiB, its budget is 8.0 MiB; ";
  EXPECT_NE(warned_[0].find(needs + takerText(findings)), std::string::npos) << warned_[0];
  const std::string message = verdict_.refusal().stop(held).message();
  EXPECT_NE(message.find(" In the pipeline " + takerText(findings)), std::string::npos) << message;
}

// -----------------------------------------------------------------------------------------------
// no budget, best effort

class UnboundedVerdictTest : public BudgetVerdictTest {
 protected:
  UnboundedVerdictTest() {
    trained_.setBudget("");
    verdict_.noteBaseSettled(guard_.hold());  // as the steps' ends find
  }
};

// The step that was recorded needs 100 MiB and begins with them. From the fourth step on another
// copy of the weights lives, 10 MiB: two steps in a row begin with it. 110 and 3 %: 113.3.
TEST_F(UnboundedVerdictTest, WhatLivesLongerByNowIsAddedToTheBudgetThatIsTold) {
  for (int i = 0; i < 3; ++i) {
    begin(100 * kMib);
    end(100 * kMib);
  }
  EXPECT_EQ(verdict_.told().smallestBytes(), 103 * kMib);  // 3 are 3 % of 100
  for (const std::int64_t mib : {100, 110, 110}) {
    begin(mib * kMib);
    endUnseen();
  }
  EXPECT_EQ(verdict_.told().smallestBytes(), 114 * kMib);
  EXPECT_FALSE(decided());
  EXPECT_FALSE(refused());
}

TEST_F(UnboundedVerdictTest, WhatAForwardPassAloneBeginsWithHasNotGrown) {
  for (int i = 0; i < 4; ++i) {
    begin(100 * kMib);
    end(100 * kMib);
  }
  for (int i = 0; i < 3; ++i) {
    begin(110 * kMib, /*trains=*/false);
    endUnseen();
  }
  EXPECT_EQ(verdict_.told().smallestBytes(), 103 * kMib);
}

class BestEffortVerdictTest : public BudgetVerdictTest {
 protected:
  static Config bestEffort() {
    Config config;
    config.planning.on_infeasible = OnInfeasible::kBestEffort;
    return config;
  }
  BestEffortVerdictTest() : BudgetVerdictTest(bestEffort()) {}
};

// The line comes with the verdict.
TEST_F(BestEffortVerdictTest, TrainsOnOverTheBudget) {
  stepOver();
  EXPECT_TRUE(warned_.empty());
  begin();
  EXPECT_TRUE(decided());
  EXPECT_FALSE(refused());
  EXPECT_GT(trained_.memory().overrunLimitBytes(), 0);
  ASSERT_EQ(warned_.size(), 1U);
  EXPECT_NE(warned_[0].find("EBBTIDE_BUDGET=18MiB"), std::string::npos) << warned_[0];
}

// -----------------------------------------------------------------------------------------------
// any run whose base does not sink

class DrawnRun : public BudgetVerdictTest {
 public:
  void TestBody() override {}

  // True: the budget was refused.
  bool drive(std::uint64_t seed) {
    std::mt19937_64 random(seed);
    std::int64_t base_bytes = 0;
    int over_in = 0;  // the first step that went over; 0: none did
    for (int step = 1; step <= 8; ++step) {
      base_bytes += static_cast<std::int64_t>(random() % 2) * kMib;
      begin(base_bytes);
      if (over_in == 0) {
        EXPECT_FALSE(refused()) << seed;
        if (decided()) return false;
        EXPECT_LE(step, BudgetFloor::kMostOver) << seed;  // the fourth decides, whatever its base
      } else if (refused()) {
        EXPECT_GT(step, over_in) << seed;
        EXPECT_GE(verdict_.told().smallestBytes(), kOver) << seed;
        return true;
      } else {
        EXPECT_LT(step, over_in + BudgetFloor::kMostOver) << seed;
      }
      if (random() % 3 == 0) {
        goOver();
        if (over_in == 0) over_in = step;
      }
      end(base_bytes + kMib);
    }
    ADD_FAILURE() << "nothing was decided: " << seed;
    return false;
  }
};

TEST(BudgetVerdict, IsDecidedInTimeAndRefusesNoRunThatHolds) {
  int were_refused = 0;
  for (std::uint64_t seed = 0; seed < 40; ++seed) were_refused += DrawnRun().drive(seed) ? 1 : 0;
  EXPECT_GT(were_refused, 0);
  EXPECT_LT(were_refused, 40);
}

}  // namespace
}  // namespace ebbtide::plugin
