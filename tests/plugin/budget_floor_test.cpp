#include "runtime/budget/budget_floor.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <thread>
#include <utility>

namespace ebbtide::plugin {
namespace {

using State = BudgetFloor::State;

constexpr BudgetFloor::Bytes kBudget = 1000;

// Until it is decided; parts of one step from the fourth step on.
TEST(BudgetFloor, TakesStepsUntilItIsDecided) {
  BudgetFloor floor;
  EXPECT_TRUE(floor.takesStep(1, false));
  EXPECT_FALSE(floor.takesStep(2, true));
  EXPECT_FALSE(floor.takesStep(3, true));
  EXPECT_TRUE(floor.takesStep(4, true));
  for (int i = 0; i < 2; ++i) {
    floor.noteBegin(500, kBudget, 0);
    floor.noteStep({});
  }
  floor.noteBegin(500, kBudget, 0);
  EXPECT_FALSE(floor.takesStep(5, false));
  floor.checkAgain();
  EXPECT_TRUE(floor.takesStep(6, false));
}

TEST(BudgetFloor, NeedsTheMostThatAStepAloneTook) {
  BudgetFloor floor;
  EXPECT_TRUE(floor.noteNeed(700, false));  // better than nothing
  EXPECT_FALSE(floor.noteNeed(800, false));
  EXPECT_EQ(floor.neededBytes(), 700);
  EXPECT_TRUE(floor.noteNeed(750, true));
  EXPECT_FALSE(floor.noteNeed(750, true));
  EXPECT_EQ(floor.neededBytes(), 750);
}

// A step that was not recorded may have taken more than those that were.
TEST(BudgetFloor, NeedsWhatStepsTookWhileItSearches) {
  BudgetFloor floor;
  floor.noteTaken(3000);
  EXPECT_EQ(floor.neededBytes(), 0);  // nothing went over
  floor.noteBegin(500, kBudget, 0);
  floor.noteNeed(1200, true, 500);
  EXPECT_TRUE(floor.noteStep({.violations = 1, .mapped_peak_bytes = 1300}));
  floor.noteTaken(1250);
  EXPECT_EQ(floor.neededBytes(), 1300);
  floor.noteTaken(1500);
  EXPECT_EQ(floor.neededBytes(), 1500);
}

// Parameters of 400, from the second step on as many bytes of gradients: the third one begins as
// the second one did.
TEST(BudgetFloor, IsPossibleOnceTwoStepsHeldAndTheBaseIsSettled) {
  BudgetFloor floor;
  floor.noteBegin(400, kBudget, 0);
  EXPECT_FALSE(floor.noteStep({}));
  EXPECT_FALSE(floor.noteBegin(800, kBudget, 0));
  EXPECT_FALSE(floor.noteStep({}));
  EXPECT_EQ(floor.state(), State::kOpen);
  EXPECT_TRUE(floor.noteBegin(800, kBudget, 0));
  EXPECT_EQ(floor.state(), State::kPossible);
  EXPECT_EQ(floor.heldBytes(), 0);  // no need is known
}

// A base that grows with each step is not waited for: the fourth begin decides.
TEST(BudgetFloor, IsPossibleAfterThreeStepsWhateverTheBaseDoes) {
  BudgetFloor floor;
  for (int i = 0; i < 3; ++i) {
    EXPECT_FALSE(floor.noteBegin(100 * (i + 1), kBudget, 0));
    floor.noteStep({});
  }
  EXPECT_TRUE(floor.noteBegin(400, kBudget, 0));
  EXPECT_EQ(floor.state(), State::kPossible);
}

// 1040 should be needed, but two steps held 1000.
TEST(BudgetFloor, StepsThatHeldAreProof) {
  BudgetFloor floor;
  for (int i = 0; i < 2; ++i) {
    floor.noteBegin(400, kBudget, 0);
    floor.noteNeed(1040, true);
    floor.noteStep({});
  }
  floor.noteBegin(400, kBudget, 0);
  EXPECT_EQ(floor.state(), State::kPossible);
  EXPECT_EQ(floor.heldBytes(), kBudget);
  floor.noteNeed(1050, true);  // the same, computed anew: 1 % of 1040 are 10.4
  EXPECT_EQ(floor.heldBytes(), kBudget);
  floor.noteNeed(1051, true);  // of another program
  EXPECT_EQ(floor.heldBytes(), 0);
}

// The base is 400, 800 and 804: within 1 % of 800 at the third begin.
TEST(BudgetFloor, IsImpossibleOnceTheBaseIsSettled) {
  BudgetFloor floor;
  floor.noteBegin(400, kBudget, 0);
  floor.noteNeed(900, true);
  EXPECT_TRUE(floor.noteStep({.violations = 1, .mapped_peak_bytes = 1100}));
  EXPECT_EQ(floor.state(), State::kSearching);
  EXPECT_EQ(floor.neededBytes(), 1100);  // what was really mapped, if that is more
  EXPECT_FALSE(floor.noteBegin(800, kBudget, 0));
  floor.noteNeed(1300, true);
  EXPECT_FALSE(floor.noteStep({.violations = 2, .mapped_peak_bytes = 1250}));
  EXPECT_TRUE(floor.noteBegin(804, kBudget, 0));
  EXPECT_EQ(floor.state(), State::kImpossible);
  EXPECT_EQ(floor.neededBytes(), 1300);
}

// The second step began with 420 and went over, the third one with 400 and held: what is 20 less by
// now is no need of the steps to come, 960 of the third one is. Two steps that hold are proof.
TEST(BudgetFloor, WhatWentOverWithABaseThatIsGoneIsNoNeed) {
  BudgetFloor floor;
  floor.noteBegin(420, kBudget, 0);
  floor.noteNeed(980, true, 420);
  EXPECT_TRUE(floor.noteStep({.violations = 2, .mapped_peak_bytes = 1020}));
  EXPECT_FALSE(floor.noteBegin(400, kBudget, 2));  // not settled
  floor.noteNeed(960, true, 400);
  EXPECT_FALSE(floor.noteStep({.violations = 2, .mapped_peak_bytes = 1020}));
  EXPECT_TRUE(floor.noteBegin(400, kBudget, 2));
  EXPECT_EQ(floor.state(), State::kOpen);
  EXPECT_EQ(floor.neededBytes(), 960);
  EXPECT_FALSE(floor.noteStep({.violations = 2, .mapped_peak_bytes = 1020}));
  EXPECT_TRUE(floor.noteBegin(400, kBudget, 2));
  EXPECT_EQ(floor.state(), State::kPossible);
}

// The same, but the third step went over too, or something did before the fourth one began.
TEST(BudgetFloor, ALowerBaseThatGoesOverIsANeed) {
  for (const bool in_the_step : {true, false}) {
    BudgetFloor floor;
    floor.noteBegin(420, kBudget, 0);
    floor.noteStep({.violations = 1, .mapped_peak_bytes = 1020});
    floor.noteBegin(400, kBudget, 1);
    floor.noteStep({.violations = in_the_step ? 2 : 1, .mapped_peak_bytes = 1010});
    EXPECT_TRUE(floor.noteBegin(400, kBudget, 2));
    EXPECT_EQ(floor.state(), State::kImpossible);
    EXPECT_EQ(floor.neededBytes(), 1020);
  }
}

// Steps that overlap tell no need of one: what is known of the others stays.
TEST(BudgetFloor, ALowerBaseWhoseNeedIsNotToldIsNoWord) {
  BudgetFloor floor;
  floor.noteBegin(420, kBudget, 0);
  floor.noteNeed(980, true, 420);
  floor.noteStep({.violations = 1, .mapped_peak_bytes = 1020});
  floor.noteBegin(400, kBudget, 1);
  floor.noteNeed(960, false, 400);
  floor.noteStep({.violations = 1, .mapped_peak_bytes = 1020});
  floor.noteBegin(400, kBudget, 1);
  EXPECT_EQ(floor.state(), State::kImpossible);
  EXPECT_EQ(floor.neededBytes(), 1020);
}

// A base that sinks after each step that goes over is believed once.
TEST(BudgetFloor, ABaseThatSinksAgainRefuses) {
  BudgetFloor floor;
  for (const auto& [violations, state] : {std::pair(1, State::kOpen), {2, State::kImpossible}}) {
    floor.noteBegin(420, kBudget, violations - 1);
    floor.noteStep({.violations = violations, .mapped_peak_bytes = 1020});
    floor.noteBegin(400, kBudget, violations);
    floor.noteNeed(960, true, 400);
    floor.noteStep({.violations = violations, .mapped_peak_bytes = 1020});
    floor.noteBegin(400, kBudget, violations);
    EXPECT_EQ(floor.state(), state);
  }
}

// 400 and 396 differ by 1 %: not by less.
TEST(BudgetFloor, ABaseThatDiffersByOnePercentIsNotSettled) {
  BudgetFloor floor;
  floor.noteBegin(400, kBudget, 0);
  floor.noteStep({.violations = 1});
  EXPECT_FALSE(floor.noteBegin(396, kBudget, 0));
}

TEST(BudgetFloor, IsImpossibleWhenTheThirdStepMoreBegins) {
  BudgetFloor floor;
  for (int i = 0; i < 3; ++i) {
    EXPECT_FALSE(floor.noteBegin(100 * (i + 1), kBudget, 0)) << i;
    floor.noteStep({.violations = i + 1, .mapped_peak_bytes = 1100});
  }
  EXPECT_TRUE(floor.noteBegin(400, kBudget, 0));
  EXPECT_EQ(floor.state(), State::kImpossible);
}

// Each step begins with a base of its own and goes over. The first steps are not recorded, as
// another thread's step is. The fourth begin refuses, or the one after the first step that tells.
TEST(BudgetFloor, StepsThatCouldNotBeRecordedCountForTheSearchOfTheirThread) {
  const std::thread::id trains = std::this_thread::get_id();
  for (int unrecorded = 0; unrecorded <= 5; ++unrecorded) {
    BudgetFloor floor;
    const int refused = std::max(4, unrecorded + 2);
    for (int step = 1; step < refused; ++step) {
      EXPECT_FALSE(floor.noteBegin(100 * step, kBudget, step - 1)) << unrecorded << ' ' << step;
      if (step <= unrecorded) {
        floor.noteUnrecorded(trains, /*over=*/true, step);
      } else {
        floor.noteStep({.violations = step, .mapped_peak_bytes = 1100, .by = trains});
      }
    }
    EXPECT_TRUE(floor.noteBegin(100 * refused, kBudget, refused - 1)) << unrecorded;
    EXPECT_EQ(floor.state(), State::kImpossible);
  }
}

// Two steps were not recorded, and the third tells. Both count: the fourth begin refuses; one, as
// the other held: the fifth; none, as they were another thread's, or under another budget, or as
// the third held: the sixth.
TEST(BudgetFloor, StepsOfAnotherThreadOrBeforeOneThatHeldDoNotCount) {
  const std::thread::id trains = std::this_thread::get_id(), other{};
  struct Case {
    std::thread::id by;  // the first two
    bool second_over, third_over, anew;
    int refused;
  };
  for (const Case& with : {Case{trains, true, true, false, 4},
                           {other, true, true, false, 6},
                           {trains, true, false, false, 6},
                           {trains, false, true, false, 5},
                           {trains, true, true, true, 6}}) {
    BudgetFloor floor;
    std::int64_t violations = 0;
    floor.noteBegin(100, kBudget, violations);
    floor.noteUnrecorded(with.by, /*over=*/true, ++violations);
    floor.noteBegin(200, kBudget, violations);
    if (with.second_over) ++violations;
    floor.noteUnrecorded(with.by, with.second_over, violations);
    if (with.anew) floor.checkAgain();
    floor.noteBegin(300, kBudget, violations);
    if (with.third_over) ++violations;
    EXPECT_TRUE(
        floor.noteStep({.violations = violations, .mapped_peak_bytes = 1100, .by = trains}));
    int begin = 4;
    while (begin < 8 && !floor.noteBegin(100 * begin, kBudget, violations)) ++begin;
    EXPECT_EQ(begin, with.refused);
    EXPECT_EQ(floor.state(), State::kImpossible);
  }
}

// The optimizer's state comes with the second step: the first one held.
TEST(BudgetFloor, ALaterStepThatGoesOverIsSearchedFromThere) {
  BudgetFloor floor;
  floor.noteBegin(400, kBudget, 0);
  EXPECT_FALSE(floor.noteStep({}));
  floor.noteBegin(800, kBudget, 0);
  EXPECT_TRUE(floor.noteStep({.violations = 1, .mapped_peak_bytes = 1100}));
  EXPECT_TRUE(floor.noteBegin(800, kBudget, 0));
  EXPECT_EQ(floor.state(), State::kImpossible);
}

// Three violations under the budget before: a fourth one is the first under this.
TEST(BudgetFloor, AnotherBudgetIsJudgedByItsOwnSteps) {
  BudgetFloor floor;
  floor.noteNeed(1200, true);
  floor.beginAnew(3);
  EXPECT_EQ(floor.neededBytes(), 1200);
  floor.noteBegin(400, kBudget, 0);
  EXPECT_FALSE(floor.noteStep({.violations = 3}));
  EXPECT_TRUE(floor.noteStep({.violations = 4}));
}

// Steps that need 1040 held 1000, then 1020 and 990 of other requests: the least is proof, whatever
// is set in between, until another program begins.
TEST(BudgetFloor, WhatWasHeldIsProofUnderAnotherBudget) {
  BudgetFloor floor;
  for (const std::int64_t budget : {1000, 1020, 990}) {
    floor.beginAnew(0);
    for (int i = 0; i < 2; ++i) {
      floor.noteBegin(400, budget, 0);
      floor.noteNeed(1040, true);
      floor.noteStep({});
    }
    floor.noteBegin(400, budget, 0);
    EXPECT_EQ(floor.heldBytes(), std::min<std::int64_t>(budget, 1000));
  }
  floor.beginOther(0);
  EXPECT_EQ(floor.heldBytes(), 0);
}

// Loading took 1200, and 2 allocations of it went over; steps need 800. A budget of 1200 is needed
// to come as far as the first step. Before the need of a step is known none is named.
TEST(BudgetFloor, WhatGoesOverBeforeTheFirstStepIsNeeded) {
  BudgetFloor floor;
  EXPECT_TRUE(floor.noteStart({.violations = 2, .mapped_peak_bytes = 1200}, 400));
  EXPECT_EQ(floor.neededBytes(), 0);
  EXPECT_FALSE(floor.needsMostAtStart());
  floor.noteBegin(400, kBudget, 0);
  EXPECT_FALSE(floor.noteNeed(800, true));  // it is not the most
  EXPECT_TRUE(floor.needsMostAtStart());
  EXPECT_TRUE(floor.noteStep({.violations = 2, .mapped_peak_bytes = 800}));
  EXPECT_EQ(floor.neededBytes(), 1200);
  EXPECT_TRUE(floor.noteNeed(1300, true));
  EXPECT_FALSE(floor.needsMostAtStart());
  floor.beginOther(2);
  EXPECT_EQ(floor.neededBytes(), 0);
  for (int i = 0; i < 2; ++i) {
    floor.noteBegin(400, kBudget, 2);
    floor.noteNeed(800, true);
    floor.noteStep({.violations = 2, .mapped_peak_bytes = 800});
    EXPECT_TRUE(floor.needsMostAtStart());
    EXPECT_EQ(floor.neededBytes(), 1200);
  }
  EXPECT_TRUE(floor.noteBegin(400, kBudget, 2));
  EXPECT_EQ(floor.state(), BudgetFloor::State::kPossible);
  EXPECT_EQ(floor.heldBytes(), 0);  // no proof that the program can be loaded in as much
}

// A batch of 1100 was made before the first step, which began with all of it and with weights of
// 100. The next program begins with a batch of 300: nothing of the first one is needed any more.
TEST(BudgetFloor, WhatLivedBeforeTheFirstStepGoesWithItsProgram) {
  BudgetFloor floor;
  EXPECT_TRUE(floor.noteStart({.violations = 1, .mapped_peak_bytes = 1200}, 1200));
  floor.noteBegin(1200, kBudget, 1);
  floor.noteNeed(1400, true);
  floor.noteStep({.violations = 2, .mapped_peak_bytes = 1400});
  floor.beginOther(2);
  floor.noteBegin(400, kBudget, 2);
  EXPECT_TRUE(floor.noteNeed(600, true));
  EXPECT_EQ(floor.neededBytes(), 600);
}

// Every other step fails, is caught, and begins a search anew: eight times. The ninth search goes
// on through it, and its third begin after the step that went over refuses.
TEST(BudgetFloor, FailuresThatAreCaughtCutOffEightSearchesAtMost) {
  BudgetFloor floor;
  BudgetFloor::Bytes base = 400;
  const auto goesOver = [&] {
    base += 100;  // never settled
    floor.noteBegin(base, kBudget, 0);
    floor.noteStep({.violations = 1, .mapped_peak_bytes = 1040});
  };
  for (int i = 0; i < BudgetFloor::kMostForgiven; ++i) {
    goesOver();
    ASSERT_EQ(floor.state(), State::kSearching);
    floor.beginOther(0);
    ASSERT_EQ(floor.state(), State::kOpen);
    ASSERT_EQ(floor.neededBytes(), 0);
  }
  for (int i = 0; i < BudgetFloor::kMostOver; ++i) {
    goesOver();
    floor.beginOther(0);
    ASSERT_EQ(floor.state(), State::kSearching) << i;
    ASSERT_EQ(floor.neededBytes(), 0);  // what failed is no word on what follows
  }
  floor.noteBegin(400, kBudget, 0);  // the third one: but no step of this one has told its need
  ASSERT_EQ(floor.state(), State::kSearching);
  goesOver();
  floor.noteBegin(400, kBudget, 0);
  EXPECT_EQ(floor.state(), State::kImpossible);
  EXPECT_EQ(floor.neededBytes(), 1040);
}

// Nine failures were caught, of steps that had gone over. What follows begins as the last one did,
// needs 500 of 1000 and holds: two such steps decide, as ever. One that goes over is refused.
TEST(BudgetFloor, ASearchThatFailuresDidNotEndIsNoWordOnAProgramThatHolds) {
  for (const bool holds : {true, false}) {
    BudgetFloor floor;
    std::int64_t violations = 0;
    for (int i = 0; i <= BudgetFloor::kMostForgiven; ++i) {
      floor.noteBegin(100 * (i + 1), kBudget, violations);
      floor.noteStep({.violations = ++violations, .mapped_peak_bytes = 1040});
      floor.beginOther(++violations);
    }
    ASSERT_EQ(floor.state(), State::kSearching);
    const BudgetFloor::Bytes base = floor.lastBaseBytes();
    floor.noteBegin(base, kBudget, violations);
    floor.noteNeed(500, true, base);
    floor.noteStep({.violations = violations, .mapped_peak_bytes = 500});
    floor.noteBegin(base, kBudget, violations);
    EXPECT_EQ(floor.state(), State::kOpen);
    EXPECT_EQ(floor.neededBytes(), 500);
    if (!holds) ++violations;
    floor.noteStep({.violations = violations, .mapped_peak_bytes = holds ? 500 : 1040});
    floor.noteBegin(base, kBudget, violations);
    EXPECT_EQ(floor.state(), holds ? State::kPossible : State::kImpossible);
    EXPECT_EQ(floor.neededBytes(), holds ? 500 : 1040);
  }
}

// As above, but that its own step goes over.
TEST(BudgetFloor, ASearchThatFailuresDidNotEndRefusesWhatGoesOver) {
  BudgetFloor floor;
  std::int64_t violations = 0;
  for (int i = 0; i <= BudgetFloor::kMostForgiven; ++i) {
    floor.noteBegin(400, kBudget, violations);
    floor.noteStep({.violations = ++violations, .mapped_peak_bytes = 1040});
    floor.beginOther(violations);
  }
  floor.noteBegin(400, kBudget, violations);
  floor.noteNeed(1010, true, 400);
  floor.noteStep({.violations = ++violations, .mapped_peak_bytes = 1020});
  floor.noteBegin(400, kBudget, violations);
  EXPECT_EQ(floor.state(), State::kImpossible);
  EXPECT_EQ(floor.neededBytes(), 1020);
}

// Two steps held and the base is settled, but something else went over before the third begins.
TEST(BudgetFloor, WhatGoesOverBetweenStepsIsJudgedWithTheNextOne) {
  BudgetFloor floor;
  for (int i = 0; i < 2; ++i) {
    floor.noteBegin(400, kBudget, 0);
    EXPECT_FALSE(floor.noteStep({.violations = 0, .mapped_peak_bytes = 800}));
  }
  EXPECT_FALSE(floor.noteBegin(400, kBudget, 1));
  EXPECT_TRUE(floor.noteStep({.violations = 1, .mapped_peak_bytes = 1100}));
  EXPECT_EQ(floor.state(), BudgetFloor::State::kSearching);
  EXPECT_EQ(floor.neededBytes(), 1100);
}

TEST(BudgetFloor, AStartWithinTheBudgetIsNoNeed) {
  BudgetFloor floor;
  EXPECT_FALSE(floor.noteStart({.violations = 0, .mapped_peak_bytes = 900}, 400));
  EXPECT_EQ(floor.neededBytes(), 0);
  EXPECT_FALSE(floor.needsMostAtStart());
  floor.countFrom(2);  // of the process that forked this one
  EXPECT_FALSE(floor.noteStart({.violations = 2, .mapped_peak_bytes = 900}, 400));
}

// 1040 should be needed, two steps held 1000, a later one did not.
TEST(BudgetFloor, AProofIsGoneWithTheFirstStepThatGoesOver) {
  BudgetFloor floor;
  for (int i = 0; i < 2; ++i) {
    floor.noteBegin(400, kBudget, 0);
    floor.noteNeed(1040, true);
    floor.noteStep({});
  }
  floor.noteBegin(400, kBudget, 0);
  ASSERT_EQ(floor.heldBytes(), kBudget);
  floor.checkAgain();
  EXPECT_TRUE(floor.noteStep({.violations = 1}));
  EXPECT_EQ(floor.heldBytes(), 0);
}

}  // namespace
}  // namespace ebbtide::plugin
