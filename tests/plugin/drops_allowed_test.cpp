#include "runtime/budget/drops_allowed.hpp"

#include "ebbtide/allocator/host_address_space.hpp"
#include "judged_run.hpp"

namespace ebbtide::plugin {
namespace {

class DropsAllowedTest : public test::JudgedRunTest {
 protected:
  static Config withBudget() {
    Config config;
    config.budget.bytes = 64 * kMib;
    config.budget.text = std::to_string(64 * kMib);
    return config;
  }
  DropsAllowedTest() : JudgedRunTest(withBudget()) {}

  std::vector<std::string> debugged_;
  DropsAllowed drops_{trained_, budget_,
                      [this](const std::string& text) { warned_.push_back(text); },
                      [this](const std::string& text) { debugged_.push_back(text); }};
  BudgetController budget_{run()};
};

TEST_F(DropsAllowedTest, AfterAShortageValuesMayBeComputedAgain) {
  EXPECT_FALSE(drops_.pressed());
  drops_.notePressure();
  EXPECT_TRUE(drops_.pressed());
}

TEST_F(DropsAllowedTest, ThatValuesAreOnlySpilledIsSaidOnce) {
  drops_.notePressure();
  for (int i = 0; i < 2; ++i) drops_.spillOnly("a test");
  EXPECT_FALSE(drops_.pressed());
  EXPECT_FALSE(drops_.keepsEverything());
  ASSERT_EQ(debugged_.size(), 1U);
  EXPECT_EQ(debugged_[0],
            "without a plan values are spilled, not computed again, from now on: a test");
}

TEST_F(DropsAllowedTest, ThatEverythingIsKeptForGoodIsSaidOnce) {
  drops_.notePressure();
  for (int i = 0; i < 2; ++i) drops_.keepEverything("a test");
  EXPECT_TRUE(drops_.keepsEverything());
  EXPECT_TRUE(drops_.keepsForGood());
  EXPECT_FALSE(drops_.pressed());
  EXPECT_FALSE(drops_.disabled());
  ASSERT_EQ(warned_.size(), 1U);
  EXPECT_EQ(warned_[0], "nothing is dropped or spilled from now on, as in PyTorch alone: a test");
}

TEST_F(DropsAllowedTest, APauseKeepsEverythingUntilItEnds) {
  drops_.notePressure();
  const Held held = guard_.hold();
  for (const bool paused : {true, false}) {
    budget_.pause(held, paused);
    budget_.take(held);
    EXPECT_EQ(drops_.keepsEverything(), paused);
    EXPECT_EQ(drops_.pressed(), !paused);
    EXPECT_FALSE(drops_.keepsForGood());
  }
}

TEST_F(DropsAllowedTest, InPassThroughTheBudgetMayBeExceeded) {
  trained_.refuseOverrun();
  for (int i = 0; i < 2; ++i) drops_.disable("a test");
  EXPECT_TRUE(drops_.disabled());
  EXPECT_EQ(trained_.memory().overrunLimitBytes(), allocator::kUnlimited);
  ASSERT_EQ(warned_.size(), 1U);
  EXPECT_EQ(warned_[0], "switched to pass-through, training goes on as PyTorch runs it: a test");
}

TEST_F(DropsAllowedTest, TheHostsMemoryMayBeGivenUp) {
  EXPECT_TRUE(drops_.mayGiveUp());
  trained_.setBudget("");
  EXPECT_TRUE(drops_.mayGiveUp());
}

// Where no budget was written, and none is asked for by now.
TEST_F(DropsAllowedTest, WhatIsMeasuredElsewhereMayNot) {
  allocator::DeviceMemory memory(allocator::makeHostAddressSpace(), allocator::makeHostEvents(),
                                 {.reserve_bytes = allocator::hostReserveBytes()});
  ASSERT_TRUE(trained_.moveTo(memory, trained_.spills(), nullptr, nullptr));
  EXPECT_FALSE(drops_.mayGiveUp());
  Config written = *config_;
  written.budget.written = "50%";
  config_.change(std::move(written));
  EXPECT_TRUE(drops_.mayGiveUp());
  config_.change(withBudget());
  EXPECT_FALSE(drops_.mayGiveUp());
  memory.setBudget(64 * kMib);
  EXPECT_TRUE(drops_.mayGiveUp());
  ASSERT_TRUE(trained_.moveTo(trained_.host(), trained_.spills(), nullptr, nullptr));
}

// Three quarters of 64 MiB, then of the 40 beside 24 that nothing could have evicted.
TEST_F(DropsAllowedTest, ReplaysMayTakePartOfWhatNothingNeeds) {
  EXPECT_EQ(drops_.transientBytes(), 48 * kMib);
  drops_.costs().noteUnevictable(24 * kMib);
  EXPECT_EQ(drops_.transientBytes(), 30 * kMib);
}

}  // namespace
}  // namespace ebbtide::plugin
