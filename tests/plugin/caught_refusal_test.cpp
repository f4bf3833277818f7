// What a program may go on with that has met a refusal, as an error, and caught it.
#include <cstdint>

#include "judged_verdict.hpp"

namespace ebbtide::plugin {
namespace {

using test::kFirstOp;
using test::kOtherOp;
using test::stepThatNeeds;

constexpr std::uint64_t kRefused = 1, kSmaller = 2;

class CaughtRefusalTest : public test::BudgetVerdictTest {
 protected:
  static scheduler::Trace stepOf(std::uint64_t program, std::int64_t needed_bytes = kNeed) {
    scheduler::Trace trace = stepThatNeeds(needed_bytes);
    trace.signature = program;
    return trace;
  }
  void endOver(std::uint64_t program) {
    goOver();
    end(stepOf(program));
  }
  void refuse() {
    begin();
    endOver(kRefused);
    begin();
    ASSERT_TRUE(refused());
    ASSERT_EQ(verdict_.floorBytes(), kOver);
    error_ = verdict_.refusal().raise(guard_.hold(), {});
  }
  // The first op of the step that has begun.
  void letGoOn(std::uint64_t first_op, std::int64_t base_bytes = kBase) {
    const Held held = guard_.hold();
    verdict_.letGoOn(held, first_op, base_bytes);
  }

  std::string error_;
};

TEST_F(CaughtRefusalTest, AnotherProgramIsJudgedByItsOwnSteps) {
  refuse();
  letGoOn(kOtherOp);
  EXPECT_FALSE(refused());
  EXPECT_FALSE(decided());
  EXPECT_EQ(verdict_.floorBytes(), 0);
  EXPECT_EQ(figures_.usedPeakBytes(), 0);
}

// A smaller batch, whose first op reads a parameter alone: its first step tells, and holds here.
TEST_F(CaughtRefusalTest, AnotherProgramMayBeginAsTheRefusedOneDid) {
  refuse();
  letGoOn(kFirstOp);
  EXPECT_FALSE(refused());
  EXPECT_EQ(verdict_.floorBytes(), 0);
  end(stepOf(kSmaller));
  begin();
  end(stepOf(kSmaller));
  begin();
  end(stepOf(kSmaller));
  begin();
  EXPECT_TRUE(decided());
  EXPECT_FALSE(refused());
}

// It goes over, as the refused one did: its base is to be settled as any other program's. The first
// begin after a caught refusal sets none: two steps go over.
TEST_F(CaughtRefusalTest, AnotherProgramThatGoesOverIsSearchedFor) {
  refuse();
  letGoOn(kFirstOp);
  warned_.clear();
  endOver(kSmaller);
  EXPECT_EQ(warned_.size(), 1U);
  begin();
  EXPECT_FALSE(refused());
  endOver(kSmaller);
  begin();
  EXPECT_TRUE(refused());
}

// After one step, of which no line says that more will go over: by the same error, with the need
// that was known. This time its step took less.
TEST_F(CaughtRefusalTest, TheSameProgramIsRefusedAfterOneStep) {
  refuse();
  letGoOn(kFirstOp);
  warned_.clear();
  trained_.memory().resetPeaks();
  void* const block = trained_.memory().allocate(kBudget + kMib, allocator::Stream::kDefault);
  ASSERT_NE(block, nullptr);
  trained_.memory().deallocate(block);
  end(stepOf(kRefused));
  EXPECT_FALSE(refused());  // what is left of this step goes on
  EXPECT_TRUE(warned_.empty());
  begin();
  EXPECT_TRUE(refused());
  EXPECT_EQ(verdict_.floorBytes(), kOver);
  EXPECT_EQ(refusal(), error_);
  EXPECT_EQ(verdict_.told().smallestBytes(), 18 * kMib);  // 16, and 2 more
}

// A step that holds is proof.
TEST_F(CaughtRefusalTest, TheSameProgramThatHoldsIsNotRefused) {
  refuse();
  letGoOn(kFirstOp);
  for (int i = 0; i < 3; ++i) {
    end(stepOf(kRefused));
    begin();
    EXPECT_FALSE(refused()) << i;
  }
  EXPECT_TRUE(decided());
}

// As often as kMostMaybeSame says; then the refusal stands.
TEST_F(CaughtRefusalTest, TheSameProgramGoesOnSixteenTimes) {
  refuse();
  for (int i = 0; i < 16; ++i) {
    letGoOn(kFirstOp);
    ASSERT_FALSE(refused()) << i;
    endOver(kRefused);
    begin();
    ASSERT_TRUE(refused()) << i;
    verdict_.refusal().raise(guard_.hold(), {});
  }
  letGoOn(kFirstOp);
  EXPECT_TRUE(refused());
  EXPECT_EQ(verdict_.floorBytes(), kOver);
  letGoOn(kFirstOp, kBase / 2);
  EXPECT_FALSE(refused());
}

}  // namespace
}  // namespace ebbtide::plugin
