// The budget, what others hold of the device, and the error where it does not suffice.
#include <c10/util/Registry.h>

#include <utility>

#include "host_devices.hpp"

namespace ebbtide::plugin::cuda::test {
namespace {

std::function<bool()> on_shortage;

struct TestCallback final : c10::FreeMemoryCallback {
  bool Execute() override { return on_shortage && on_shortage(); }
};
const bool registered = [] {
  c10::FreeCudaMemoryCallbacksRegistry()->Register(
      "ebbtide_test", [] { return std::unique_ptr<c10::FreeMemoryCallback>(new TestCallback); });
  return true;
}();

std::string messageOf(const std::function<void()>& request) {
  try {
    request();
  } catch (const c10::OutOfMemoryError& error) {
    return error.what_without_backtrace();
  }
  return "no OutOfMemoryError";
}

TEST_F(CudaAllocatorTest, MappedPagesStayWithinTheBudget) {
  make(16 * kMiB);
  void* block = take(12 * kMiB);
  EXPECT_THROW(take(6 * kMiB), c10::OutOfMemoryError);
  EXPECT_LE(gpu().mapped_bytes, 16 * kMiB);
  void* other = take(4 * kMiB);  // 12 + 4 = 16
  give(block);
  give(other);
  EXPECT_LE(all(stats().reserved_bytes).peak, 16 * kMiB);
  EXPECT_EQ(stats().num_ooms, 1);
  EXPECT_EQ(stats().num_alloc_retries, 1);
}

// The budget is 16 MiB. Others hold 6: 10 are left.
TEST_F(CudaAllocatorTest, WhatOthersHoldIsOfTheBudget) {
  make(16 * kMiB);
  gpu().others_bytes = 6 * kMiB;
  void* block = take(10 * kMiB);
  EXPECT_THROW(take(kPage), c10::OutOfMemoryError);
  give(block);
  gpu().others_bytes = 2 * kMiB;  // a library let go of 4
  give(take(14 * kMiB));          // measured again before it fails
  allocator_->emptyCache({0, 0});
  gpu().others_bytes = 12 * kMiB;
  allocator_->heaps().measureMargins();  // at the start of a step, say
  EXPECT_THROW(take(6 * kMiB), c10::OutOfMemoryError);
  EXPECT_EQ(gpu().mapped_bytes, 0);
  give(take(4 * kMiB));
}

// 16 MiB of budget. What a library took since the last look is seen before pages are mapped, not
// after: with 6 MiB of others and 8 live ones there are 2 more.
TEST_F(CudaAllocatorTest, OthersAreLookedAtBeforePagesAreMapped) {
  make(16 * kMiB);
  source_->measure_every = std::chrono::nanoseconds{0};
  void* block = take(8 * kMiB);
  give(take(kPage));  // cached
  gpu().others_bytes = 6 * kMiB;
  EXPECT_THROW(take(4 * kMiB), c10::OutOfMemoryError);
  EXPECT_LE(gpu().most_used_bytes, 16 * kMiB) << "over the budget for a moment";
  void* last = take(kPage);
  EXPECT_EQ(gpu().mapped_bytes, 10 * kMiB);
  give(block);
  give(last);
}

// The cache gives way when others take more of the budget: 10 MiB of 16 are cached, others hold 8.
TEST_F(CudaAllocatorTest, TheCacheGivesWayToOthers) {
  make(16 * kMiB);
  give(take(10 * kMiB));
  gpu().others_bytes = 8 * kMiB;
  allocator_->heaps().measureMargins();
  EXPECT_EQ(gpu().mapped_bytes, 8 * kMiB);
}

TEST_F(CudaAllocatorTest, WithoutABudgetOnlyTheDeviceRefuses) {
  gpu().others_bytes = 100 * kMiB;
  void* block = take(156 * kMiB);  // all that is left of 256
  EXPECT_THROW(take(kPage), c10::OutOfMemoryError);
  give(block);
}

// The budget has room for 16 more MiB, the device has none: what another stream has cached goes.
TEST_F(CudaAllocatorTest, WhereTheDeviceIsFullTheCacheGivesWay) {
  gpu().total_bytes = 32 * kMiB;
  give(take(24 * kMiB, stream(1)));
  gpu().answers = true;
  ++gpu().queued[stream(1)];
  void* block = take(16 * kMiB, stream(2));
  EXPECT_NE(block, nullptr);
  EXPECT_EQ(stats().num_ooms, 0);
  give(block);
}

TEST_F(CudaAllocatorTest, AFractionIsABudgetOfTheWholeDevice) {
  EXPECT_EQ(allocator_->getMemoryFraction(0), 1.0);
  allocator_->setMemoryFraction(0.125, 0);  // of 256 MiB: 32
  EXPECT_EQ(allocator_->getMemoryFraction(0), 0.125);
  EXPECT_EQ(source_->opened, 0) << "waits until the device is used";
  void* block = take(30 * kMiB);
  EXPECT_THROW(take(4 * kMiB), c10::OutOfMemoryError);
  allocator_->setMemoryFraction(1.0, 0);
  give(take(4 * kMiB));
  give(block);
  EXPECT_THROW(allocator_->setMemoryFraction(1.5, 0), c10::Error);
  EXPECT_THROW(allocator_->setMemoryFraction(-0.1, 0), c10::Error);
}

// Of 256 MiB; what is of a step's is none until the steps are measured.
TEST_F(CudaAllocatorTest, EachFormComesToABudgetOfTheDevice) {
  const DeviceHeap& heap = allocator_->heaps().heap(0);
  EXPECT_EQ(budgetOf("", heap.budget()), allocator::kUnlimited);
  EXPECT_EQ(budgetOf("none", heap.budget()), allocator::kUnlimited);
  EXPECT_EQ(budgetOf("-50%", heap.budget()), allocator::kUnlimited);
  EXPECT_EQ(budgetOf("60%peak", heap.budget()), allocator::kUnlimited);
  EXPECT_EQ(budgetOf("16 mib", heap.budget()), 16 * kMiB);
  EXPECT_EQ(budgetOf("50%", heap.budget()), 128 * kMiB);
  EXPECT_EQ(budgetOf("auto", heap.budget()), 256 * kMiB - 256 * kMiB / 100 * 5);
  allocator_->setMemoryFraction(0.5, 0);
  EXPECT_EQ(budgetOf("auto", heap.budget()), 128 * kMiB);
}

// Of 256 MiB others use 64: as much less is left of all less 5 %, 243.2 MiB.
TEST_F(CudaAllocatorTest, AutoLeavesWhatIsFreeButForAMargin) {
  DeviceHeap& heap = allocator_->heaps().heap(0);
  gpu().others_bytes = 64 * kMiB;
  heap.budget().setBudget(budgetOf("auto", heap.budget()));
  EXPECT_THROW(take(184 * kMiB), c10::OutOfMemoryError);
  give(take(176 * kMiB));
}

// Others use 64 of 256 MiB. Until the budget is judged 243.2 - 64 = 179.2 MiB can be had, whatever
// it is; then no more than 100 - 64 = 36.
TEST_F(CudaAllocatorTest, ABudgetMayBeExceededUntilItIsJudged) {
  make(100 * kMiB);
  gpu().others_bytes = 64 * kMiB;
  allocator_->heaps().letGoOver();
  void* block = take(160 * kMiB);
  EXPECT_EQ(allocator_->heaps().heap(0).memory().statistics().budget_violations, 1);
  EXPECT_THROW(take(20 * kMiB), c10::OutOfMemoryError);
  give(take(18 * kMiB));
  give(block);
  allocator_->heaps().heap(0).memory().limitOverrun(0);
  EXPECT_THROW(take(38 * kMiB), c10::OutOfMemoryError);
  give(take(36 * kMiB));
}

// What others have registered to free memory comes before the budget is exceeded.
TEST_F(CudaAllocatorTest, NothingThatCanBeFreedIsLeftWhereTheBudgetIsExceeded) {
  make(16 * kMiB);
  allocator_->heaps().letGoOver();
  void* cached = take(10 * kMiB);
  on_shortage = [&] {
    if (cached != nullptr) give(std::exchange(cached, nullptr));
    return true;
  };
  give(take(12 * kMiB));
  on_shortage = nullptr;
  EXPECT_EQ(cached, nullptr);
  EXPECT_EQ(allocator_->heaps().heap(0).memory().statistics().budget_violations, 0);
}

// Whichever comes first: a tenth of 256 MiB, 25.6, holds beside a budget that may be exceeded.
TEST_F(CudaAllocatorTest, AFractionHoldsBesideABudgetThatMayBeExceeded) {
  make(16 * kMiB);
  allocator_->heaps().letGoOver();
  give(take(kPage));
  allocator_->setMemoryFraction(0.1, 0);
  EXPECT_THROW(take(28 * kMiB), c10::OutOfMemoryError);
  give(take(24 * kMiB));
}

// Of two devices one is trained on and judged: the other one's budget is a bound from then on, and
// so is that of one that is opened later.
TEST_F(CudaAllocatorTest, NobodyJudgesDevicesThatAreNotTrainedOn) {
  make(16 * kMiB);
  allocator_->heaps().letGoOver();
  void* before = take(20 * kMiB);
  allocator_->heaps().boundAllBut(0);
  void* trained = take(20 * kMiB);
  source_->device = 1;
  EXPECT_THROW(take(18 * kMiB), c10::OutOfMemoryError);
  give(take(16 * kMiB));
  give(before);
  give(trained);
  EXPECT_EQ(allocator_->heaps().mostExceeded()->used_peak_bytes, 40 * kMiB);
}

// Also where that one is open by then.
TEST_F(CudaAllocatorTest, NobodyJudgesAnOpenDeviceThatIsNotTrainedOn) {
  make(16 * kMiB);
  allocator_->heaps().letGoOver();
  source_->device = 1;
  give(take(kPage));
  allocator_->heaps().boundAllBut(0);
  EXPECT_THROW(take(18 * kMiB), c10::OutOfMemoryError);
  give(take(16 * kMiB));
}

// Nobody judges a fraction of torch's: half of 256 MiB.
TEST_F(CudaAllocatorTest, AFractionAloneIsNeverExceeded) {
  allocator_->heaps().letGoOver();
  allocator_->setMemoryFraction(0.5, 0);
  EXPECT_THROW(take(130 * kMiB), c10::OutOfMemoryError);
  give(take(128 * kMiB));
}

// They count in budgets that are told later; without one nothing is taken off what can be mapped.
TEST_F(CudaAllocatorTest, WhatOthersUseIsMeasuredWithoutABudget) {
  DeviceHeap& heap = allocator_->heaps().heap(0);
  gpu().others_bytes = 64 * kMiB;
  heap.budget().measureMargin();
  EXPECT_EQ(heap.budget().facts().others_bytes, 64 * kMiB);
  EXPECT_EQ(heap.memory().budgetTracker().marginBytes(), 0);
}

TEST_F(CudaAllocatorTest, TorchsConfigurationMaySetTheFraction) {
  auto& config = torch_cuda::CUDAAllocatorConfig::instance();
  config.parseArgs("per_process_memory_fraction:0.125");  // of 256 MiB: 32
  make(allocator::kUnlimited);
  config.parseArgs("per_process_memory_fraction:1.0");
  EXPECT_EQ(allocator_->getMemoryFraction(1), 0.125);
  EXPECT_THROW(take(34 * kMiB), c10::OutOfMemoryError);
  give(take(32 * kMiB));
}

TEST_F(CudaAllocatorTest, TheSmallerOfBudgetAndFractionHolds) {
  make(16 * kMiB);
  allocator_->setMemoryFraction(0.5, 0);  // 128 MiB
  EXPECT_THROW(take(20 * kMiB), c10::OutOfMemoryError);
  allocator_->setMemoryFraction(0.03125, 0);  // 8 MiB
  EXPECT_THROW(take(10 * kMiB), c10::OutOfMemoryError);
  give(take(8 * kMiB));
}

// 30 of 256 MiB live, 10 are cached. An eighth, 32 MiB, holds them with 2 of the cache; a
// sixteenth, 16 MiB, does not.
TEST_F(CudaAllocatorTest, ABudgetBelowWhatLivesIsSaidOnceAChange) {
  void* a = take(20 * kMiB);
  void* b = take(10 * kMiB);
  give(take(10 * kMiB));
  allocator_->setMemoryFraction(0.125, 0);
  EXPECT_EQ(gpu().mapped_bytes, 32 * kMiB);
  EXPECT_TRUE(said_.empty());
  allocator_->setMemoryFraction(0.0625, 0);
  ASSERT_EQ(said_.size(), 1U);
  EXPECT_EQ(said_[0],
            "GPU 0: the budget was lowered to 16.0 MiB while live blocks hold 30.0 MiB: pages are "
            "given back as they are freed, and no more are mapped until then");
  EXPECT_THROW(take(2 * kMiB), c10::OutOfMemoryError);
  give(a);
  EXPECT_EQ(gpu().mapped_bytes, 16 * kMiB) << "given back as they were freed";
  give(take(6 * kMiB));  // 10 + 6 = 16
  EXPECT_EQ(said_.size(), 1U);

  allocator_->setMemoryFraction(0.03125, 0);  // 8 MiB
  EXPECT_EQ(said_.size(), 2U);
  allocator_->setMemoryFraction(0.0361328125,
                                0);  // 9.25 MiB: less than lives, but more than before
  EXPECT_EQ(said_.size(), 2U);
  give(b);
}

TEST_F(CudaAllocatorTest, WhatOthersHoldIsToldOfALoweredBudget) {
  gpu().others_bytes = 4 * kMiB;
  void* block = take(30 * kMiB);
  allocator_->setMemoryFraction(0.125, 0);  // 32 MiB less 4
  ASSERT_EQ(said_.size(), 1U);
  EXPECT_NE(said_[0].find("lowered to 32.0 MiB (others hold 4.0 MiB of it) while live blocks"),
            std::string::npos)
      << said_[0];
  give(block);
}

// Budget 24 MiB; others 4; live 16 in two blocks; 4 MiB requested: 16 + 4 + 4 = 24 would fit, were
// the 2 MiB asked for on top not.
TEST_F(CudaAllocatorTest, TheMessageSaysWhatIsInTheWay) {
  make(24 * kMiB);
  gpu().others_bytes = 4 * kMiB;
  void* a = take(10 * kMiB);
  void* b = take(6 * kMiB);
  const std::string message = messageOf([this] { take(6 * kMiB); });
  for (const char* part :
       {"CUDA out of memory. Tried to allocate 6.0 MiB.", "total capacity of 256.0 MiB",
        "Budget 24.0 MiB (4.0 MiB of it in use outside", "16.0 MiB in live blocks",
        "4.0 MiB free, largest run 4.0 MiB (fragmentation 0%)", "a budget of 26MiB"}) {
    EXPECT_NE(message.find(part), std::string::npos) << part << " is not in: " << message;
  }
  give(a);
  give(b);
}

TEST_F(CudaAllocatorTest, ObserversAreToldBeforeTheError) {
  make(16 * kMiB);
  gpu().others_bytes = 2 * kMiB;
  std::vector<std::size_t> seen;
  allocator_->attachOutOfMemoryObserver(
      [&](std::int64_t device, std::size_t bytes, std::size_t total, std::size_t free) {
        EXPECT_EQ(device, 0);
        seen = {bytes, total, free};
        give(take(512));  // no lock is held
      });
  EXPECT_THROW(take(20 * kMiB), c10::OutOfMemoryError);
  // What it takes, the smaller of budget and device, and what the device has.
  ASSERT_EQ(seen.size(), 3U);
  EXPECT_EQ(seen[0], static_cast<std::size_t>(20 * kMiB));
  EXPECT_EQ(seen[1], static_cast<std::size_t>(16 * kMiB));
  EXPECT_EQ(seen[2], static_cast<std::size_t>(254 * kMiB));
}

TEST_F(CudaAllocatorTest, WhatOthersRegisteredIsAskedFirst) {
  ASSERT_TRUE(registered);
  make(16 * kMiB);
  void* held = take(12 * kMiB);
  on_shortage = [&] {
    if (held != nullptr) give(held);
    return std::exchange(held, nullptr) != nullptr;
  };
  void* block = take(14 * kMiB);
  EXPECT_EQ(stats().num_ooms, 0);
  give(block);
  EXPECT_THROW(take(20 * kMiB), c10::OutOfMemoryError) << "asked again, it has nothing";
  on_shortage = nullptr;
}

TEST_F(CudaAllocatorTest, ASizeThatCannotBeIsOutOfMemory) {
  EXPECT_THROW(allocator_->raw_alloc(std::size_t{1} << 60), c10::OutOfMemoryError);
  EXPECT_THROW(allocator_->raw_alloc(std::size_t{1} << 50), c10::OutOfMemoryError);
}

}  // namespace
}  // namespace ebbtide::plugin::cuda::test
