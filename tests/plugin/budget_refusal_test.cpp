#include "runtime/budget/budget_refusal.hpp"

#include "judged_budget.hpp"

namespace ebbtide::plugin {
namespace {

constexpr std::uint64_t kFirstOp = 7, kOtherOp = 8;

class BudgetRefusalTest : public test::JudgedBudgetTest {
 protected:
  explicit BudgetRefusalTest(Config config = {}) : JudgedBudgetTest(std::move(config)) {
    trace_.ops.resize(1);
    trace_.ops[0].signature = kFirstOp;
    trained_.setBudget(std::to_string(8 * kMib));
  }

  // By the error that the program gets.
  std::string refuse(const Held& held, std::int64_t base_bytes) {
    refusal_.noteNeedsMost(held, trace_);
    refusal_.refuse(held, base_bytes);
    return refusal_.raise(held, others_);
  }

  scheduler::Trace trace_;
  NeedsOfRanks::ByRank others_;  // as they told
};

TEST_F(BudgetRefusalTest, TheErrorHasItsWords) {
  const Held held = guard_.hold();
  EXPECT_FALSE(refusal_.stop(held).raised());
  const std::string error = refuse(held, 10 * kMib);
  EXPECT_NE(error, "");
  EXPECT_EQ(error, refusal_.stop(held).message());
  EXPECT_TRUE(refusal_.stop(held).raised());
}

// Rank 0 may need more than rank 1 does, whose error ends the job first.
TEST_F(BudgetRefusalTest, TheErrorOfOneOfSeveralRanksSaysWhoseBudgetItNames) {
  const Held held = guard_.hold();
  EXPECT_EQ(refuse(held, 10 * kMib).find("rank"), std::string::npos);
  Config of_two = *config_;
  of_two.rank = 1;
  of_two.world_size = 2;
  config_.change(std::move(of_two));
  const std::string error = refuse(held, 10 * kMib);
  EXPECT_NE(error.find("MiB (of rank 1; other ranks may need more).\n"), std::string::npos)
      << error;
  floor_.noteNeed(20 * kMib, /*alone=*/true);
  floor_.noteBaseSettled();
  others_[0] = 15 * kMib;  // all have told: rank 1 has 20 MiB and a margin
  EXPECT_NE(refuse(held, 10 * kMib).find("MiB (of rank 1; the others need no more so far).\n"),
            std::string::npos);
}

// What the others told is named in the error alone, not in what the rank knows of itself.
TEST_F(BudgetRefusalTest, TheErrorNamesTheBudgetOfTheRankThatNeedsMost) {
  const Held held = guard_.hold();
  Config of_four = *config_;
  of_four.rank = 1;
  of_four.world_size = 4;
  config_.change(std::move(of_four));
  others_ = {{0, 90 * kMib}, {2, 128 * kMib}};
  const std::string own = asSetting(told_.smallestBytes());
  EXPECT_NE(refuse(held, 10 * kMib)
                .find("EBBTIDE_BUDGET=128MiB (of rank 2; rank 1 needs " + own +
                      ", others may need more).\n"),
            std::string::npos);
  others_[3] = 100 * kMib;
  EXPECT_NE(refuse(held, 10 * kMib)
                .find("EBBTIDE_BUDGET=128MiB (of rank 2; rank 1 needs " + own + ").\n"),
            std::string::npos);
}

TEST_F(BudgetRefusalTest, AnotherProgramGoesOn) {
  const Held held = guard_.hold();
  refuse(held, 10 * kMib);
  EXPECT_TRUE(refusal_.goesOn(held, kOtherOp, 10 * kMib));
  EXPECT_FALSE(refusal_.requested());
}

TEST_F(BudgetRefusalTest, WhoHasNotMetItDoesNotGoOn) {
  const Held held = guard_.hold();
  refusal_.noteNeedsMost(held, trace_);
  refusal_.refuse(held, 10 * kMib);
  EXPECT_FALSE(refusal_.goesOn(held, kOtherOp, 0));
}

TEST_F(BudgetRefusalTest, ARankOfAPipelineWaitsForAdvice) {
  const Held held = guard_.hold();
  may_be_advised_ = true;
  trace_.group_size = 2;
  refusal_.noteDecides(held, trace_);
  refusal_.refuse(held, 10 * kMib);
  EXPECT_FALSE(refusal_.requested());
  EXPECT_TRUE(refusal_.stop(held).awaits());
}

// Nobody would answer.
TEST_F(BudgetRefusalTest, ARankWithoutAStoreIsStoppedAtOnce) {
  const Held held = guard_.hold();
  trace_.group_size = 2;
  refusal_.noteDecides(held, trace_);
  refusal_.refuse(held, 10 * kMib);
  EXPECT_TRUE(refusal_.requested());
}

// Its first op reads parameters alone, and no base tells a smaller batch: of NumPy's, say.
class MaybeSameTest : public BudgetRefusalTest {
 protected:
  // Refused, with the error caught, a step of as much begins.
  bool goesOnAfter(const Held& held, std::uint64_t refused) {
    trace_.signature = refused;
    refuse(held, 10 * kMib);
    return refusal_.goesOn(held, kFirstOp, 10 * kMib);
  }
  bool isSame(const Held& held, std::uint64_t program, std::int64_t needed_bytes = 0) {
    scheduler::Trace trace;
    trace.signature = program;
    const scheduler::TraceGraph graph;
    const scheduler::SpillingFloor floor;
    return refusal_.isSame(held,
                           {.trace = trace, .graph = graph, .floor = floor, .bytes = needed_bytes});
  }
  // A batch-size finder's next size.
  bool tried(const Held& held, std::uint64_t refused, std::int64_t needed_bytes) {
    const bool goes_on = goesOnAfter(held, refused);
    EXPECT_FALSE(isSame(held, refused + 1, needed_bytes));
    return goes_on;
  }
};

TEST_F(MaybeSameTest, EachSmallerBatchGoesOn) {
  const Held held = guard_.hold();
  for (std::uint64_t program = 1; program <= 3; ++program) {
    EXPECT_TRUE(goesOnAfter(held, program));
    EXPECT_FALSE(refusal_.requested());
    EXPECT_FALSE(isSame(held, program + 1));
  }
}

TEST_F(MaybeSameTest, ItsFirstWholeStepTellsOnce) {
  const Held held = guard_.hold();
  ASSERT_TRUE(goesOnAfter(held, 1));
  EXPECT_TRUE(isSame(held, 1));
  EXPECT_FALSE(isSame(held, 1));
}

// Of a smaller base the same program needs less.
TEST_F(MaybeSameTest, WhatIsSmallerOrBeginsOtherwiseIsNotTheSame) {
  const Held held = guard_.hold();
  trace_.signature = 1;
  refuse(held, 10 * kMib);
  ASSERT_TRUE(refusal_.goesOn(held, kFirstOp, 9 * kMib));
  EXPECT_FALSE(isSame(held, 1));
  refuse(held, 10 * kMib);
  ASSERT_TRUE(refusal_.goesOn(held, kOtherOp, 10 * kMib));
  EXPECT_FALSE(isSame(held, 1));
}

TEST_F(MaybeSameTest, WhatHasNoSignatureIsNotTheSame) {
  const Held held = guard_.hold();
  ASSERT_TRUE(goesOnAfter(held, 0));
  EXPECT_FALSE(isSame(held, 0));
}

// The seventeenth is not let go on; with less, or as another program, it is.
TEST_F(MaybeSameTest, GoesOnSixteenTimesInARun) {
  const Held held = guard_.hold();
  for (std::uint64_t i = 1; i <= 16; ++i) EXPECT_TRUE(goesOnAfter(held, i)) << i;
  EXPECT_FALSE(goesOnAfter(held, 17));
  EXPECT_TRUE(refusal_.requested());
  EXPECT_TRUE(refusal_.goesOn(held, kFirstOp, 9 * kMib));
  EXPECT_FALSE(goesOnAfter(held, 18));
  EXPECT_TRUE(refusal_.goesOn(held, kOtherOp, 10 * kMib));
}

// As accelerate's finder, which takes a tenth off at each error.
TEST_F(MaybeSameTest, WhatNeedsLessEachTimeGoesOnMoreOften) {
  const Held held = guard_.hold();
  floor_.noteNeed(100 * kMib, /*alone=*/true);
  for (int i = 1; i <= 40; ++i) EXPECT_TRUE(tried(held, i, (100 - 2 * i) * kMib)) << i;
}

// Two programs take turns, and the smaller one needs no less than before.
TEST_F(MaybeSameTest, WhatNeedsNoLessThanBeforeDoesNot) {
  const Held held = guard_.hold();
  floor_.noteNeed(100 * kMib, /*alone=*/true);
  EXPECT_TRUE(tried(held, 1, 40 * kMib));
  for (std::uint64_t i = 1; i <= 16; ++i) EXPECT_TRUE(tried(held, i, 40 * kMib)) << i;
  EXPECT_FALSE(tried(held, 17, 40 * kMib));
}

TEST_F(MaybeSameTest, AnotherBudgetEndsIt) {
  const Held held = guard_.hold();
  ASSERT_TRUE(goesOnAfter(held, 1));
  refusal_.beginAnew(held);
  EXPECT_FALSE(isSame(held, 1));
}

class BudgetBestEffortTest : public BudgetRefusalTest {
 protected:
  static Config bestEffort() {
    Config config;
    config.planning.on_infeasible = OnInfeasible::kBestEffort;
    return config;
  }
  BudgetBestEffortTest() : BudgetRefusalTest(bestEffort()) {}
};

TEST_F(BudgetBestEffortTest, IsToldOnceAndGoesOn) {
  const Held held = guard_.hold();
  for (int i = 0; i < 2; ++i) refusal_.refuse(held, 10 * kMib);
  EXPECT_FALSE(refusal_.requested());
  ASSERT_EQ(warned_.size(), 1U);
  EXPECT_NE(warned_[0].find("the budget of 8.0 MiB is too small for this program"),
            std::string::npos)
      << warned_[0];
  EXPECT_TRUE(warned_[0].ends_with("MiB")) << warned_[0];  // what is to be typed is last
}

}  // namespace
}  // namespace ebbtide::plugin
