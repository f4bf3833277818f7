// When a session refuses its budget, and what lifts that.
#include <vector>

#include "controlled_session.hpp"

namespace ebbtide::plugin {
namespace {

using test::kMib;

class SessionVerdictTest : public test::ControlledSession {
 protected:
  void needLittle() {  // what a step takes beside its trace is all that tells then
    trace_.base_bytes = 0;
    for (auto& block : trace_.blocks) block.bytes = 64;
  }
  void stepOver() {
    const StepStart start = session_->beginStep();
    void* block = allocateOver(kBudget);
    ASSERT_NE(block, nullptr);
    end(start);
    session_->trained().memory().deallocate(block);
  }
  // As a norm that is logged: something is saved, and nothing runs backward.
  void logSomething() {
    const StepStart start = session_->beginStep();
    session_->course().releaseLog(start.log);
    StepSummary summary;
    summary.opened = start.opened;
    session_->endStep(std::move(summary));
  }

  static constexpr std::int64_t kBudget = 8 * kMib;
};

// A step goes over, and what lives is another base from then on: it has to be seen twice, after two
// steps that ended.
TEST_F(SessionVerdictTest, AForwardPassAloneSettlesNoBase) {
  Session& session = begin(kBudget);
  stepOver();
  void* kept = session.trained().memory().allocate(4 * kMib, allocator::Stream::kDefault);
  for (int i = 0; i < 4; ++i) logSomething();
  EXPECT_FALSE(isRefused());
  stepOver();
  EXPECT_FALSE(isRefused());
  logSomething();
  EXPECT_TRUE(isRefused());
  session.trained().memory().deallocate(kept);
}

// Another thread that only looks on begins one while the step that went over is the last that
// ended.
TEST_F(SessionVerdictTest, WhoOnlyLooksOnSettlesNoBase) {
  Session& session = begin(kBudget);
  stepOver();
  session.beginStep(false);
  EXPECT_FALSE(isRefused());
  session.beginStep();
  EXPECT_TRUE(isRefused());
}

// Another thread runs forward for ever and lets go of all but its last results. So the first step
// that goes over is not recorded. No base is settled: each step begins with 4 MiB more.
TEST_F(SessionVerdictTest, BesideAForwardPassForEverTheFourthStepIsRefused) {
  needLittle();
  Session& session = begin(kBudget);
  const StepStart forward = session.beginStep();
  ASSERT_NE(forward.log, nullptr);
  forward.log->add(scheduler::TraceEvent::Kind::kOpBegin, 0);
  for (int use = 0; use < 16; ++use) forward.log->noteUse();
  for (int use = 0; use < 8; ++use) forward.log->add(scheduler::TraceEvent::Kind::kRelease, use);
  std::vector<void*> kept;
  for (int i = 1; i <= 3; ++i) {
    const StepStart start = session.beginStep();
    EXPECT_FALSE(isRefused()) << i;
    EXPECT_EQ(start.log != nullptr, i > 1) << i;
    void* block = allocateOver(kBudget);
    ASSERT_NE(block, nullptr);
    end(start, /*recorded=*/i > 1);
    session.trained().memory().deallocate(block);
    kept.push_back(session.trained().memory().allocate(4 * kMib, allocator::Stream::kDefault));
  }
  session.beginStep();
  ASSERT_TRUE(isRefused());
  const std::string text = raiseRefusal();  // 8 MiB were kept beside the 16 of the third
  EXPECT_NE(text.find("needs 24.0 MiB"), std::string::npos) << text;
  for (void* block : kept) session.trained().memory().deallocate(block);
}

// 4 MiB are kept from the first step on, and the second one takes 32 more while another thread's is
// recorded: steps as that one are to come.
TEST_F(SessionVerdictTest, AStepThatWasNotRecordedIsNeededToo) {
  needLittle();
  Session& session = begin(kBudget);
  stepOver();
  void* kept = session.trained().memory().allocate(4 * kMib, allocator::Stream::kDefault);
  const StepStart start = session.beginStep();
  session.trained().memory().deallocate(allocateOver(2 * kBudget));
  end(start, false);
  session.beginStep();
  ASSERT_TRUE(isRefused());
  const std::string text = raiseRefusal();
  EXPECT_NE(text.find("needs 36.0 MiB"), std::string::npos) << text;
  session.trained().memory().deallocate(kept);
}

// 4 MiB are live when the first step begins, which takes 16 more, and gone when the second one
// does, which holds: the budget is judged anew. The third takes 10 and is told by a line of its
// own. With the fourth begin the budget is refused for the 20, as the first step comes again.
TEST_F(SessionVerdictTest, EachSearchForTheBudgetIsToldByALine) {
  needLittle();
  config_.log_level = "info";
  testing::internal::CaptureStderr();
  Session& session = begin(kBudget);
  void* kept = session.trained().memory().allocate(4 * kMib, allocator::Stream::kDefault);
  stepOver();
  session.trained().memory().deallocate(kept);
  step();
  const StepStart start = session.beginStep();
  EXPECT_FALSE(isRefused());
  void* block = session.trained().memory().allocate(10 * kMib, allocator::Stream::kDefault);
  end(start);
  session.trained().memory().deallocate(block);
  EXPECT_FALSE(isRefused());
  session.beginStep();
  EXPECT_TRUE(isRefused());
  const std::string said = testing::internal::GetCapturedStderr();
  const std::string granted = ": training goes on over the budget for at most 3 more steps";
  for (const char* line :
       {"step 1 needed at least 20.0 MiB, more than the budget of 8.0 MiB",
        "step 3 went over the budget of 8.0 MiB again; the steps so far needed at least 20.0 MiB"})
    EXPECT_NE(said.find(line + granted), std::string::npos) << said;
  EXPECT_NE(said.find("[EB72]"), std::string::npos) << said;
  EXPECT_EQ(said.find(granted, said.find(granted, said.find(granted) + 1) + 1), std::string::npos);
  const std::string text = raiseRefusal();
  EXPECT_NE(text.find("needs 20.0 MiB"), std::string::npos) << text;
}

TEST_F(SessionVerdictTest, AnotherBudgetLiftsARefusalThatWasMet) {
  Session& session = begin(kBudget);
  stepOver();
  stepOver();
  ASSERT_TRUE(isRefused());  // its base is that of the first one: nothing
  EXPECT_NE(raiseRefusal().find("it is too small for this program"), std::string::npos);
  const std::int64_t enough = 4 * plain_bytes_ + (std::int64_t{1} << 30);
  ASSERT_EQ(post("/v1/budget", {{"budget", enough}}).status, 200);
  step();
  EXPECT_EQ(session.trained().budgetBytes(), enough);
  EXPECT_FALSE(isRefused());
}

// Behind a hint an evaluation is no step's: it takes 16 MiB, and is known by the need alone.
TEST_F(SessionVerdictTest, WhatGoesOverBetweenTwoStepsIsNeeded) {
  needLittle();
  Session& session = begin(kBudget);
  step();
  session.trained().memory().deallocate(allocateOver(kBudget));
  for (int i = 0; i < 3 && !isRefused(); ++i) step();
  ASSERT_TRUE(isRefused());
  const std::string text = raiseRefusal();
  EXPECT_NE(text.find("needs 16.0 MiB"), std::string::npos) << text;
}

// A MiB is less than the base alone, and yet no step went over it.
TEST_F(SessionVerdictTest, WhatStepsHeldIsGrantedAgain) {
  trace_.base_bytes = 64 * kMib;
  Session& session = begin(kMib);
  for (int i = 0; i < 4; ++i) step();
  ASSERT_FALSE(isRefused());
  for (const auto& budget : {nlohmann::json("none"), nlohmann::json(kMib)}) {
    const test::Answered answered = post("/v1/budget", {{"budget", budget}});
    EXPECT_EQ(answered.status, 200) << answered.body;
    step();
  }
  EXPECT_EQ(session.trained().budgetBytes(), kMib);
  EXPECT_EQ(post("/v1/budget", {{"budget", kMib - 1}}).status, 409);
}

// Its steps need far less. Nothing is given up any more: what went over is counted, not refused.
TEST_F(SessionVerdictTest, InPassThroughTheBudgetStopsNothing) {
  needLittle();
  Session& session = begin(kBudget);
  for (int i = 0; i < 4; ++i) step();
  EXPECT_EQ(allocateOver(kBudget), nullptr);  // it is possible: it is kept
  const std::int64_t before = session.trained().memory().statistics().budget_violations;
  session.drops().disable("a test");
  void* block = allocateOver(kBudget);
  EXPECT_NE(block, nullptr);
  EXPECT_GT(session.trained().memory().statistics().budget_violations, before);
  session.trained().memory().deallocate(block);
}

// What is ours and must not fail: for as long as it takes.
TEST_F(SessionVerdictTest, OurOwnCopiesMayGoOverTheBudget) {
  needLittle();
  Session& session = begin(kBudget);
  for (int i = 0; i < 4; ++i) step();
  {
    const TrainedMemory::OverBudget over(session.trained().memory());
    void* block = allocateOver(kBudget);
    EXPECT_NE(block, nullptr);
    session.trained().memory().deallocate(block);
  }
  EXPECT_EQ(allocateOver(kBudget), nullptr);
  {  // a limit that another thread has set meanwhile stays
    const TrainedMemory::OverBudget over(session.trained().memory());
    session.trained().memory().limitOverrun(kMib);
  }
  EXPECT_EQ(session.trained().memory().overrunLimitBytes(), kMib);
}

}  // namespace
}  // namespace ebbtide::plugin
