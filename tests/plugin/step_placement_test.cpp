#include "memory/step_placement.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <functional>
#include <new>
#include <stdexcept>
#include <thread>
#include <vector>

#include "ebbtide/allocator/host_address_space.hpp"

namespace ebbtide::plugin {
namespace {

constexpr allocator::Bytes kMiB = allocator::Bytes{1} << 20;

class StepPlacementTest : public ::testing::Test {
 protected:
  ~StepPlacementTest() override { freeAll(gradients_); }

  void* allocate(allocator::Bytes bytes) {
    return memory_.allocate(static_cast<std::size_t>(bytes), allocator::Stream::kDefault);
  }
  void freeAll(std::vector<void*>& blocks) {
    while (!blocks.empty()) {
      memory_.deallocate(blocks.back());
      blocks.pop_back();
    }
  }
  // Four activations forward; backward four gradients, that live into the next step. Of each step
  // eight allocations are large.
  void step(
      const std::shared_ptr<const Plan>& plan, allocator::Bytes bytes = kMiB,
      bool as_planned = true, const std::function<void()>& between = [] {}) {
    placement_.beginStep(plan);
    freeAll(gradients_);
    std::vector<void*> activations;
    for (int i = 1; i <= 4; ++i) activations.push_back(allocate(i * bytes));
    between();
    placement_.beginBackward();
    for (int i = 4; i >= 1; --i) {
      gradients_.push_back(allocate(i * bytes + 4096));
      memory_.deallocate(activations.back());
      activations.pop_back();
    }
    placement_.endStep(as_planned);
  }
  // Nothing runs backward, though it might: four blocks of sizes that no step has, which go as they
  // came. The gradients of the step before live on.
  void evaluate(const std::shared_ptr<const Plan>& plan) {
    placement_.beginStep(plan);
    std::vector<void*> activations;
    for (int i = 1; i <= 4; ++i) activations.push_back(allocate(i * kMiB + 16384));
    freeAll(activations);
    placement_.endStep(/*as_planned=*/false);
  }
  std::int64_t placedInEvaluation(const std::shared_ptr<const Plan>& plan) {
    const std::int64_t before = memory_.statistics().planned_allocations;
    evaluate(plan);
    return memory_.statistics().planned_allocations - before;
  }
  std::int64_t placedIn(const std::shared_ptr<const Plan>& plan, allocator::Bytes bytes = kMiB) {
    const std::int64_t before = memory_.statistics().planned_allocations;
    step(plan, bytes);
    return memory_.statistics().planned_allocations - before;
  }
  // A block of another size beside those of a step, between its activations and its gradients.
  void stepWithAnother(const std::shared_ptr<const Plan>& plan, allocator::Bytes bytes) {
    void* held = nullptr;
    step(plan, kMiB, /*as_planned=*/true, [&] { held = allocate(bytes); });
    memory_.deallocate(held);
  }
  // One step to be steady, two that are recorded; the begin of a fourth ends the recording.
  void untilRecorded(const std::shared_ptr<const Plan>& plan, allocator::Bytes bytes = kMiB) {
    for (int i = 0; i < 4; ++i) step(plan, bytes);
  }

  allocator::DeviceMemory memory_{allocator::makeHostAddressSpace(),
                                  allocator::makeHostEvents(),
                                  {.reserve_bytes = allocator::Bytes{1} << 30}};
  // The placer's own result, unless a test takes its place.
  StepPlacer placer_ = scheduler::placeInCycle;
  StepPlacement placement_{
      memory_, [this](const auto& cycle, const auto& options) { return placer_(cycle, options); }};
  std::vector<void*> gradients_;
};

// The load: 4 + 3 + 2 + 1 MiB of activations and the first gradient, 4 MiB and a page.
TEST_F(StepPlacementTest, PlannedStepsArePlacedAfterTwoWereRecorded) {
  const auto plan = std::make_shared<Plan>();
  for (int i = 0; i < 3; ++i) step(plan);
  EXPECT_FALSE(placement_.hasWork());
  step(plan);
  ASSERT_TRUE(placement_.hasWork());
  const std::string said = placement_.place();
  EXPECT_NE(said.find("8 of 8 blocks placed"), std::string::npos) << said;
  EXPECT_NE(said.find("their load 14.0 MiB"), std::string::npos) << said;
  EXPECT_FALSE(placement_.hasWork());
  EXPECT_EQ(placedIn(plan), 8);
  EXPECT_EQ(placedIn(plan), 8);
  EXPECT_EQ(memory_.statistics().plan_deviations, 0);
}

TEST_F(StepPlacementTest, StepsWithoutAPlanAreNotRecorded) {
  for (int i = 0; i < 6; ++i) step(nullptr);
  EXPECT_FALSE(placement_.hasWork());
}

TEST_F(StepPlacementTest, NorThoseThatLeftTheirPlan) {
  const auto plan = std::make_shared<Plan>();
  for (int i = 0; i < 6; ++i) step(plan, kMiB, /*as_planned=*/false);
  EXPECT_FALSE(placement_.hasWork());
  step(plan);
  step(plan);
  step(plan, kMiB, /*as_planned=*/false);  // the second recorded one
  step(plan);
  EXPECT_FALSE(placement_.hasWork());
}

TEST_F(StepPlacementTest, APlanOfItsOwnForEachProgram) {
  const auto one = std::make_shared<Plan>();
  const auto other = std::make_shared<Plan>();
  untilRecorded(one);
  placement_.place();
  EXPECT_EQ(placedIn(other), 0);
  untilRecorded(other, kMiB / 2);
  ASSERT_TRUE(placement_.hasWork());
  placement_.place();
  EXPECT_EQ(placedIn(other, kMiB / 2), 8);
  // The other's gradients lie where this one's blocks are to be: some come from the pool.
  step(one);
  EXPECT_EQ(placedIn(one), 8);
}

// With the figures of a later step, say: nothing is recorded anew.
TEST_F(StepPlacementTest, APlanThatDoesTheSameKeepsItsAddresses) {
  const auto plan = std::make_shared<Plan>(), same = std::make_shared<Plan>();
  same->course = plan->course;
  untilRecorded(plan);
  placement_.place();
  EXPECT_EQ(placedIn(plan), 8);
  EXPECT_EQ(placedIn(same), 8);
}

TEST_F(StepPlacementTest, StepsThatChangedAreRecordedAgain) {
  const auto plan = std::make_shared<Plan>();
  untilRecorded(plan);
  placement_.place();
  for (int i = 0; i < 5; ++i) EXPECT_EQ(placedIn(plan, 2 * kMiB + 8192), 0) << i;
  for (int i = 0; i < 3; ++i) step(plan, 2 * kMiB + 8192);
  ASSERT_TRUE(placement_.hasWork());
  placement_.place();
  step(plan, 2 * kMiB + 8192);
  EXPECT_EQ(placedIn(plan, 2 * kMiB + 8192), 8);
}

// One block of 2 MiB is placed elsewhere in each step: of the 22 MiB that it asks for, more than a
// twentieth. Of the 60 that were recorded, with an evaluation after the second step, it would be
// less.
TEST_F(StepPlacementTest, WhatDeviatesIsMeasuredAgainstTheStepsOwnBytes) {
  const auto plan = std::make_shared<Plan>();
  const auto evaluate = [&] {
    for (int i = 0; i < 40; ++i) memory_.deallocate(allocate(kMiB));
  };
  step(plan);
  step(plan);
  evaluate();
  step(plan);
  step(plan);
  ASSERT_TRUE(placement_.hasWork());
  ASSERT_NE(placement_.place().find("48 of 48 blocks placed"), std::string::npos);
  for (int i = 0; i < 5; ++i) stepWithAnother(plan, 2 * kMiB);
  for (int i = 0; i < 3; ++i) step(plan);
  EXPECT_TRUE(placement_.hasWork());
}

// Of 9 blocks one is placed elsewhere, but of 20 MiB a sixteenth of one.
TEST_F(StepPlacementTest, AFewBytesElsewhereAreNoReasonToPlaceAnew) {
  const auto plan = std::make_shared<Plan>();
  untilRecorded(plan);
  placement_.place();
  for (int i = 0; i < 12; ++i) stepWithAnother(plan, kMiB / 16);
  EXPECT_FALSE(placement_.hasWork());
  EXPECT_EQ(placedIn(plan), 8);
}

// Four steps place 4 of 24 MiB elsewhere, the fifth none.
TEST_F(StepPlacementTest, OnlyStepsInARowAreAReasonToPlaceAnew) {
  const auto plan = std::make_shared<Plan>();
  untilRecorded(plan);
  placement_.place();
  for (int i = 0; i < 4; ++i) {
    for (int k = 0; k < 4; ++k) stepWithAnother(plan, 4 * kMiB + 8192);
    step(plan);
  }
  EXPECT_FALSE(placement_.hasWork());
}

// 4 MiB beside the 20 in each step. The eight others keep their places while the step is recorded.
TEST_F(StepPlacementTest, OldAddressesAreTakenUntilThereAreNewOnes) {
  const auto plan = std::make_shared<Plan>();
  untilRecorded(plan);
  placement_.place();
  const std::int64_t before = memory_.statistics().planned_allocations;
  int steps = 0;
  while (!placement_.hasWork() && steps < 20) {
    stepWithAnother(plan, 4 * kMiB + 8192);
    ++steps;
  }
  EXPECT_EQ(steps, 5 + 3);  // five that deviate; two that are recorded, and the next one's begin
  EXPECT_EQ(memory_.statistics().planned_allocations - before, 8 * steps);
  EXPECT_TRUE(placement_.place().starts_with("9 of 9 blocks placed"));
  const std::int64_t placed = memory_.statistics().planned_allocations;
  stepWithAnother(plan, 4 * kMiB + 8192);
  EXPECT_EQ(memory_.statistics().planned_allocations - placed, 9);
}

// No two steps in a row are of one program: the second recorded one is the other's.
TEST_F(StepPlacementTest, ProgramsThatTakeTurnsArePlaced) {
  const auto one = std::make_shared<Plan>();
  const auto other = std::make_shared<Plan>();
  int placed = 0;
  for (int i = 0; i < 6; ++i) {
    step(one);
    step(other, kMiB / 2);
    if (!placement_.hasWork()) continue;
    EXPECT_TRUE(placement_.place().starts_with("8 of 8 blocks placed"));
    ++placed;
  }
  EXPECT_EQ(placed, 2);
  EXPECT_EQ(placedIn(one), 8);
  EXPECT_EQ(placedIn(other, kMiB / 2), 8);
}

// The step that is recorded is the one after the first: an evaluation that begins as a step does
// takes no recording for itself. It ends with what begins after the third step. Eight blocks are
// the step's, four the evaluation's, which go on behind them.
TEST_F(StepPlacementTest, AStepThatAnEvaluationFollowsIsPlaced) {
  const auto plan = std::make_shared<Plan>();
  for (int i = 0; i < 2; ++i) {
    step(plan);
    evaluate(plan);
  }
  step(plan);
  EXPECT_FALSE(placement_.hasWork());
  evaluate(plan);
  ASSERT_TRUE(placement_.hasWork());
  const std::string said = placement_.place();
  EXPECT_TRUE(said.starts_with("12 of 12 blocks placed")) << said;
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(placedIn(plan), 8) << i;
    EXPECT_EQ(placedInEvaluation(plan), 4) << i;
  }
  EXPECT_EQ(memory_.statistics().plan_deviations, 0);
}

// Its first op may tell that it is no program with a plan.
TEST_F(StepPlacementTest, AnEvaluationMayBeAnotherProgram) {
  const auto plan = std::make_shared<Plan>();
  const auto evaluateOther = [&] {
    placement_.beginStep(plan);
    placement_.changePlan(nullptr);
    memory_.deallocate(allocate(kMiB + 16384));
    placement_.endStep(/*as_planned=*/false);
  };
  for (int i = 0; i < 3; ++i) {
    step(plan);
    evaluateOther();
  }
  ASSERT_TRUE(placement_.hasWork());
  const std::string said = placement_.place();
  EXPECT_TRUE(said.starts_with("9 of 9 blocks placed")) << said;
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(placedIn(plan), 8) << i;
    evaluateOther();
  }
  EXPECT_EQ(memory_.statistics().plan_deviations, 0);
}

// The first step after a step is taken for the evaluation that was recorded there. Its forward pass
// looks for the evaluation's blocks, its backward pass tells that it is a step. That costs the
// places of four blocks once.
TEST_F(StepPlacementTest, AnEvaluationThatComesNowAndThenIsExpectedNoMore) {
  const auto plan = std::make_shared<Plan>();
  for (int i = 0; i < 3; ++i) {
    step(plan);
    evaluate(plan);
  }
  placement_.place();
  EXPECT_EQ(placedIn(plan), 8);
  EXPECT_EQ(placedIn(plan), 4);
  for (int i = 0; i < 3; ++i) EXPECT_EQ(placedIn(plan), 8) << i;
  evaluate(plan);
  EXPECT_EQ(placedIn(plan), 8);
}

// Two steps are recorded: of the first one all passes that follow it, of the second one none.
TEST_F(StepPlacementTest, SeveralPassesMayFollowAStep) {
  const auto plan = std::make_shared<Plan>();
  for (int i = 0; i < 3; ++i) {
    step(plan);
    for (int pass = 0; pass < 3; ++pass) evaluate(plan);
  }
  ASSERT_TRUE(placement_.hasWork());
  const std::string said = placement_.place();
  EXPECT_TRUE(said.starts_with("20 of 20 blocks placed")) << said;
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(placedIn(plan), 8) << i;
    for (int pass = 0; pass < 3; ++pass) EXPECT_EQ(placedInEvaluation(plan), 4) << pass;
  }
}

// It was expected to be the first one's again, and leaves its plan.
TEST_F(StepPlacementTest, TheSecondRecordedStepMayBeAnyPrograms) {
  const auto one = std::make_shared<Plan>();
  const auto other = std::make_shared<Plan>();
  step(one);
  step(one);
  placement_.beginStep(one);
  placement_.changePlan(other);
  freeAll(gradients_);
  placement_.beginBackward();
  placement_.endStep(/*as_planned=*/false);
  EXPECT_FALSE(placement_.hasWork());
  placement_.beginStep(one);
  EXPECT_TRUE(placement_.hasWork());
}

TEST_F(StepPlacementTest, AThreadThatIsNotTheStepsChangesNothing) {
  const auto plan = std::make_shared<Plan>();
  untilRecorded(plan);
  placement_.place();
  placement_.beginStep(plan);
  std::thread([&] {
    placement_.beginBackward();
    placement_.changePlan(nullptr);
    memory_.deallocate(allocate(kMiB));
  }).join();
  const std::int64_t before = memory_.statistics().planned_allocations;
  freeAll(gradients_);
  memory_.deallocate(allocate(kMiB));
  EXPECT_EQ(memory_.statistics().planned_allocations, before + 1);
}

// Its blocks go where the other program's plan has them.
TEST_F(StepPlacementTest, TheFirstOpMayTellAnotherPlan) {
  const auto guess = std::make_shared<Plan>();
  const auto plan = std::make_shared<Plan>();
  untilRecorded(plan);
  placement_.place();
  placement_.beginStep(guess);
  placement_.changePlan(plan);
  freeAll(gradients_);
  const std::int64_t before = memory_.statistics().planned_allocations;
  memory_.deallocate(allocate(kMiB));
  EXPECT_EQ(memory_.statistics().planned_allocations, before + 1);
  placement_.endStep(false);
}

// Each of five recordings ends at the first op, which is the other program's: none counts.
TEST_F(StepPlacementTest, AWrongGuessIsNoRecordingOfTheGuessedProgram) {
  const auto guess = std::make_shared<Plan>();
  const auto plan = std::make_shared<Plan>();
  step(guess);
  for (int i = 0; i < 5; ++i) {
    placement_.beginStep(guess);
    placement_.changePlan(plan);
    placement_.endStep(/*as_planned=*/false);
  }
  for (int i = 0; i < 3; ++i) step(guess);
  EXPECT_TRUE(placement_.hasWork());
}

// A step goes on without addresses. It is recorded from its second step on, then 4, 8, 16, 32, 64
// and 128 steps later: from 2, 6, 14, 30, 62, 126, 254. Work is there two steps after that.
TEST_F(StepPlacementTest, APlacerThatThrowsIsAskedEverMoreRarely) {
  const auto plan = std::make_shared<Plan>();
  placer_ = [](const auto&, const auto&) -> scheduler::Placement {
    throw std::invalid_argument("no");
  };
  std::vector<int> asked;
  for (int i = 1; i <= 300; ++i) {
    EXPECT_EQ(placedIn(plan), 0);
    if (!placement_.hasWork()) continue;
    asked.push_back(i);
    EXPECT_THROW(placement_.place(), std::invalid_argument);
    EXPECT_FALSE(placement_.hasWork());
  }
  EXPECT_EQ(asked, (std::vector<int>{4, 8, 16, 32, 64, 128, 256}));
}

TEST_F(StepPlacementTest, OneThatFailedOnceIsAskedAgain) {
  const auto plan = std::make_shared<Plan>();
  placer_ = [this](const auto&, const auto&) -> scheduler::Placement {
    placer_ = scheduler::placeInCycle;
    throw std::bad_alloc();
  };
  untilRecorded(plan);
  EXPECT_THROW(placement_.place(), std::bad_alloc);
  for (int i = 0; i < 4 && !placement_.hasWork(); ++i) step(plan);
  ASSERT_TRUE(placement_.hasWork());
  placement_.place();
  EXPECT_EQ(placedIn(plan), 8);
}

// All blocks at offset 0: the validator, which shares no code with the placer, sees it.
TEST_F(StepPlacementTest, APlacementThatOverlapsIsNotUsed) {
  const auto plan = std::make_shared<Plan>();
  placer_ = [](const auto& cycle, const auto& options) {
    scheduler::Placement placement = scheduler::placeInCycle(cycle, options);
    for (auto& offset : placement.offsets) offset = 0;
    return placement;
  };
  untilRecorded(plan);
  EXPECT_THROW(placement_.place(), std::runtime_error);
  EXPECT_EQ(placedIn(plan), 0);
}

// With no time at all there is the first packing, which is right if not the lowest.
TEST_F(StepPlacementTest, ADeadlineThatHasPassedGivesTheFirstPacking) {
  StepPlacement hasty(memory_, scheduler::placeInCycle, std::chrono::nanoseconds{-1});
  const auto plan = std::make_shared<Plan>();
  std::vector<void*> blocks;
  const auto oneStep = [&] {
    hasty.beginStep(plan);
    for (int i = 1; i <= 4; ++i) blocks.push_back(allocate(i * kMiB));
    hasty.beginBackward();
    freeAll(blocks);
    hasty.endStep(/*as_planned=*/true);
  };
  for (int i = 0; i < 4; ++i) oneStep();
  ASSERT_TRUE(hasty.hasWork());
  EXPECT_TRUE(hasty.place().starts_with("4 of 4 blocks placed"));
  const std::int64_t before = memory_.statistics().planned_allocations;
  oneStep();
  EXPECT_EQ(memory_.statistics().planned_allocations - before, 4);
}

// A program that ends does not wait for a search of two seconds.
TEST_F(StepPlacementTest, ThePlacerIsToldWhenNobodyWaits) {
  const auto plan = std::make_shared<Plan>();
  const std::atomic<bool> ends{true};
  const std::atomic<bool>* told = nullptr;
  placer_ = [&told](const auto& cycle, const auto& options) {
    told = options.cancelled;
    return scheduler::placeInCycle(cycle, options);
  };
  untilRecorded(plan);
  EXPECT_TRUE(placement_.place(&ends).starts_with("8 of 8 blocks placed"));
  EXPECT_EQ(told, &ends);
}

}  // namespace
}  // namespace ebbtide::plugin
