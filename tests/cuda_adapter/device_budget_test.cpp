// DeviceBudget over a memory that no torch asks for blocks. The device has 256 MiB.
#include "cuda/device_budget.hpp"

#include "host_devices.hpp"

namespace ebbtide::plugin::cuda::test {
namespace {

class DeviceBudgetTest : public ::testing::Test {
 protected:
  Bytes budgetBytes() { return memory_.budgetTracker().budgetBytes(); }
  Bytes marginBytes() { return memory_.budgetTracker().marginBytes(); }
  DeviceBudget::LookAtDevice look() {
    return [this] {
      ++looks_;
      return gpu_.memoryInfo();
    };
  }

  HostGpu gpu_;
  int looks_ = 0;
  allocator::DeviceMemory memory_{std::make_unique<HostGpuSpace>(gpu_),
                                  std::make_unique<HostGpuEvents>(gpu_), kHostGpuOptions};
  DeviceBudget budget_{memory_, look(), std::chrono::nanoseconds{0}};
};

TEST_F(DeviceBudgetTest, TheSmallerOfBudgetAndFractionIsTheMemorys) {
  EXPECT_EQ(budgetBytes(), 256 * kMiB);
  EXPECT_EQ(memory_.overrunLimitBytes(), 0);
  budget_.setBudget(100 * kMiB);
  EXPECT_EQ(budgetBytes(), 100 * kMiB);
  budget_.setFraction(0.25);
  EXPECT_EQ(budgetBytes(), 64 * kMiB);
  EXPECT_EQ(budget_.mostBytes(), 64 * kMiB);
  budget_.setFraction(0.5);
  EXPECT_EQ(budgetBytes(), 100 * kMiB);
  budget_.setBudget(allocator::kUnlimited);
  EXPECT_EQ(budgetBytes(), 128 * kMiB);
}

// Others hold 64 of 256 MiB. A budget of all of the device bounds nothing.
TEST_F(DeviceBudgetTest, WhatOthersHoldIsTheMarginWhereABudgetBounds) {
  gpu_.others_bytes = 64 * kMiB;
  budget_.measureMargin();
  EXPECT_EQ(budget_.facts().others_bytes, 64 * kMiB);
  EXPECT_EQ(marginBytes(), 0);
  budget_.setBudget(100 * kMiB);
  EXPECT_EQ(marginBytes(), 64 * kMiB);
  budget_.setBudget(256 * kMiB);
  EXPECT_EQ(marginBytes(), 0);
  budget_.setFraction(0.5);
  EXPECT_EQ(marginBytes(), 64 * kMiB);
}

// The budget is 16 MiB. 4 are debited and not mapped yet; 12 of others just fit beside these.
TEST_F(DeviceBudgetTest, PagesThatAreNotMappedYetAreNobodyElses) {
  budget_.setBudget(16 * kMiB);
  ASSERT_TRUE(memory_.budgetTracker().debit(4 * kMiB));
  gpu_.others_bytes = 12 * kMiB;
  EXPECT_TRUE(budget_.mayMap(4 * kMiB));
  EXPECT_EQ(marginBytes(), 12 * kMiB);
  gpu_.others_bytes = 14 * kMiB;
  EXPECT_FALSE(budget_.mayMap(4 * kMiB));
  EXPECT_EQ(marginBytes(), 14 * kMiB);
  const allocator::BudgetTracker::OverrunScope overrun;
  EXPECT_TRUE(budget_.mayMap(4 * kMiB));
  memory_.budgetTracker().credit(4 * kMiB);
}

TEST_F(DeviceBudgetTest, WhereNothingBoundsTheDeviceIsNotLookedAt) {
  const int before = looks_;
  EXPECT_TRUE(budget_.mayMap(4 * kMiB));
  EXPECT_EQ(looks_, before);
  budget_.setBudget(16 * kMiB);
  const int bounded = looks_;
  EXPECT_TRUE(budget_.mayMap(4 * kMiB));
  EXPECT_EQ(looks_, bounded + 1);
}

TEST_F(DeviceBudgetTest, ARecentLookIsEnough) {
  DeviceBudget hourly(memory_, look(), std::chrono::hours{1});
  hourly.setBudget(16 * kMiB);
  const int before = looks_;
  gpu_.others_bytes = 64 * kMiB;
  EXPECT_TRUE(hourly.mayMap(4 * kMiB));
  EXPECT_EQ(looks_, before);
}

// All of 256 MiB less 5 %, less the 64 of others; of half a device 128 - 64.
TEST_F(DeviceBudgetTest, ABudgetIsExceededUpToAMarginOfTheDevice) {
  constexpr Bytes kAvailable = 256 * kMiB - 256 * kMiB / 100 * 5;
  gpu_.others_bytes = 64 * kMiB;
  budget_.goOver();
  EXPECT_EQ(memory_.overrunLimitBytes(), 0) << "there is no budget";
  budget_.setBudget(100 * kMiB);
  budget_.goOver();
  EXPECT_EQ(memory_.overrunLimitBytes(), kAvailable - 64 * kMiB);
  budget_.setFraction(0.5);
  EXPECT_EQ(memory_.overrunLimitBytes(), 64 * kMiB);
  memory_.limitOverrun(0);  // it was judged
  budget_.setFraction(1.0);
  EXPECT_EQ(memory_.overrunLimitBytes(), 0);
}

}  // namespace
}  // namespace ebbtide::plugin::cuda::test
