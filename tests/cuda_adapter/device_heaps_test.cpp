// DeviceHeaps of two devices of 256 MiB, without torch's interface to them.
#include "cuda/device_heaps.hpp"

#include "host_devices.hpp"

namespace ebbtide::plugin::cuda::test {
namespace {

class DeviceHeapsTest : public ::testing::Test {
 protected:
  DeviceHeapsTest() { heaps_.init(2); }

  HostSource* source_ = nullptr;  // the heaps'
  DeviceHeaps heaps_{source(), [](const DeviceHeap&) { return 16 * kMiB; }, nullptr};

 private:
  std::unique_ptr<DeviceSource> source() {
    auto made = std::make_unique<HostSource>();
    source_ = made.get();
    return made;
  }
};

TEST_F(DeviceHeapsTest, ADeviceIsOpenedOnceItsMemoryIsAskedFor) {
  EXPECT_EQ(heaps_.openHeap(1), nullptr);
  EXPECT_EQ(source_->opened, 0);
  DeviceHeap& heap = heaps_.heap(1);
  EXPECT_EQ(&heaps_.heap(1), &heap);
  EXPECT_EQ(heaps_.openHeap(1), &heap);
  EXPECT_EQ(heaps_.openHeap(0), nullptr);
  EXPECT_EQ(source_->opened, 1);
  EXPECT_EQ(heap.memory().budgetTracker().budgetBytes(), 16 * kMiB);
}

TEST_F(DeviceHeapsTest, ThereAreAsManyDevicesAsTorchTells) {
  heaps_.init(1);  // not fewer again
  EXPECT_EQ(heaps_.count(), 2);
  EXPECT_THROW(heaps_.heap(2), c10::Error);
  EXPECT_THROW(heaps_.openHeap(2), c10::Error);
  EXPECT_THROW(heaps_.heap(-1), c10::Error);
  EXPECT_THROW(heaps_.setFraction(2, 1.0), c10::Error);
  EXPECT_THROW(heaps_.init(129), c10::Error);
}

// An eighth of 256 MiB is no less than the budget of 16; a thirty-second, 8 MiB, is.
TEST_F(DeviceHeapsTest, WhatIsSaidBeforeADeviceIsOpenedWaits) {
  int seen = 0;
  heaps_.addTracker([&](const TraceEntry&) { ++seen; });
  heaps_.setFraction(0, 0.125);
  heaps_.setFraction(1, 0.03125);
  heaps_.letGoOver();
  EXPECT_EQ(source_->opened, 0);
  EXPECT_EQ(heaps_.heap(0).memory().budgetTracker().budgetBytes(), 16 * kMiB);
  EXPECT_EQ(heaps_.heap(1).memory().budgetTracker().budgetBytes(), 8 * kMiB);
  // What the fractions leave: others hold nothing.
  EXPECT_EQ(heaps_.heap(0).memory().overrunLimitBytes(), 32 * kMiB);
  EXPECT_EQ(heaps_.heap(1).memory().overrunLimitBytes(), 8 * kMiB);
  heaps_.heap(0).free(heaps_.heap(0).allocate(512, nullptr));
  EXPECT_EQ(seen, 4) << "mapped, allocated, free requested, free completed";
}

TEST_F(DeviceHeapsTest, ABlockIsOfTheHeapThatGaveIt) {
  void* const here = heaps_.heap(0).allocate(512, nullptr);
  void* const there = heaps_.heap(1).allocate(512, nullptr);
  int local = 0;
  EXPECT_EQ(heaps_.heapOf(here), &heaps_.heap(0));
  EXPECT_EQ(heaps_.heapOf(there), &heaps_.heap(1));
  EXPECT_EQ(heaps_.heapOf(&local), nullptr);
  heaps_.heap(0).free(here);
  heaps_.heap(1).free(there);
}

// 20 and 24 MiB in budgets of 16: the device with most is told of.
TEST_F(DeviceHeapsTest, TheDeviceThatExceededItsBudgetMostIsTold) {
  EXPECT_FALSE(heaps_.mostExceeded().has_value());
  heaps_.letGoOver();
  void* const here = heaps_.heap(0).allocate(20 * kMiB, nullptr);
  void* const there = heaps_.heap(1).allocate(24 * kMiB, nullptr);
  ASSERT_TRUE(heaps_.mostExceeded().has_value());
  EXPECT_EQ(heaps_.mostExceeded()->mapped_peak_bytes, 24 * kMiB);
  heaps_.boundAllBut(0);
  EXPECT_EQ(heaps_.heap(1).memory().overrunLimitBytes(), 0);
  EXPECT_NE(heaps_.heap(0).memory().overrunLimitBytes(), 0);
  heaps_.heap(0).free(here);
  heaps_.heap(1).free(there);
}

}  // namespace
}  // namespace ebbtide::plugin::cuda::test
