// What the executor asks of a run, and tells it: StepEvents, as StepCourse answers.
#include "runtime/step_course.hpp"

#include <future>

#include "planned_run.hpp"

namespace ebbtide::plugin {
namespace {

constexpr std::uint64_t kProgram = 7, kFirstOp = 70;

class StepCourseTest : public test::PlannedRunTest {
 protected:
  static Config silent() {
    Config config;
    config.log_level = "off";
    return config;
  }
  StepCourseTest() : PlannedRunTest(silent()) {}

  // A program that is known by its first op.
  std::shared_ptr<Plan> planned() {
    auto plan = std::make_shared<Plan>();
    plan->signature = kProgram;
    Program& known = steps_so_far_.programs[kProgram];
    known.first_op_signature = kFirstOp;
    known.in_force.plan = plan;
    return plan;
  }

  RunOutputs outputs_{config_, trained_, torch_version_, lines_};
  StepCourse course_{{.steps = steps_so_far_,
                      .trained = trained_,
                      .budget = budget_,
                      .drops = drops_,
                      .outage = host_,
                      .planning = planning_,
                      .plans = plans_,
                      .control = control_,
                      .outputs = outputs_,
                      .lines = lines_}};
  StepEvents& events_ = course_;
};

TEST_F(StepCourseTest, TheFirstOpTellsWhichPlanAStepFollows) {
  const auto plan = planned();
  EXPECT_EQ(events_.planFor(kFirstOp, /*trains=*/true), plan);
  EXPECT_EQ(events_.planFor(kFirstOp + 1, /*trains=*/true), nullptr);
}

TEST_F(StepCourseTest, WhereEverythingIsKeptNoStepFollowsAny) {
  planned();
  drops_.keepEverything("a test");
  EXPECT_EQ(events_.planFor(kFirstOp, /*trains=*/true), nullptr);
}

TEST_F(StepCourseTest, AStepObservesTheAllocatorByItsLogUntilItIsOver) {
  const StepStart start = course_.begin(/*trains=*/true);
  ASSERT_NE(start.log, nullptr);
  EXPECT_TRUE(events_.observesBy(start.log.get()));
  EXPECT_FALSE(events_.observesBy(nullptr));
  EXPECT_TRUE(course_.releaseLog(start.log));
  EXPECT_FALSE(events_.observesBy(start.log.get()));
  EXPECT_FALSE(course_.releaseLog(start.log));
}

// Who asks may be out of memory while another thread holds the guard.
TEST_F(StepCourseTest, WhoObservesIsNotWaitedFor) {
  const StepStart start = course_.begin(/*trains=*/true);
  const Held held = guard_.hold();
  EXPECT_FALSE(
      std::async(std::launch::async, [&] { return events_.observesBy(start.log.get()); }).get());
}

// 8 MiB live when the step begins, and 16 more when its backward pass does.
TEST_F(StepCourseTest, WhatAStepMadeUntilItsBackwardPassIsItsActivations) {
  void* const base = trained_.memory().allocate(8 * kMib, allocator::Stream::kDefault);
  course_.begin(/*trains=*/true);
  void* const made = trained_.memory().allocate(16 * kMib, allocator::Stream::kDefault);
  events_.noteBackwardBegins();
  EXPECT_EQ(steps_so_far_.begun.activation_bytes, trained_.memory().blockBytes(made));
  for (void* const block : {base, made}) trained_.memory().deallocate(block);
}

TEST_F(StepCourseTest, LateBackwardsTellHowStepsEnd) {
  EXPECT_FALSE(course_.lateBackwards().stepsGoOn() || course_.lateBackwards().crossHints());
  events_.noteLateBackward(/*ended_by_hint=*/true);
  EXPECT_TRUE(course_.lateBackwards().crossHints());
  EXPECT_FALSE(course_.lateBackwards().stepsGoOn());
  events_.noteLateBackward(/*ended_by_hint=*/false);
  EXPECT_TRUE(course_.lateBackwards().stepsGoOn());
  EXPECT_EQ(course_.lateBackwards().count(), 2);
}

}  // namespace
}  // namespace ebbtide::plugin
