// torch.cuda.memory_stats(): its keys are the members of torch's DeviceStats.
#include "host_devices.hpp"

namespace ebbtide::plugin::cuda::test {
namespace {

TEST_F(CudaAllocatorTest, NothingIsOpenedToLookAtIt) {
  EXPECT_EQ(all(stats().allocation).current, 0);
  allocator_->resetPeakStats(0);
  allocator_->emptyCache({0, 0});
  EXPECT_TRUE(allocator_->snapshot({0, 0}, true).segments.empty());
  EXPECT_EQ(source_->opened, 0);
  EXPECT_THROW(allocator_->getDeviceStats(2), c10::Error);
  EXPECT_THROW(allocator_->getDeviceStats(-1), c10::Error);
}

// 1,000 bytes are two grains of 512; 3 MiB are whole units of 4 KiB. Each brings pages of 2 MiB of
// its own: one for the small block, two for the large one.
TEST_F(CudaAllocatorTest, SmallAndLargeAreCountedApart) {
  void* few = take(1000);
  void* many = take(3 * kMiB);
  const auto now = stats();
  EXPECT_EQ(all(now.allocation).current, 2);
  EXPECT_EQ(small(now.allocation).current, 1);
  EXPECT_EQ(large(now.allocation).current, 1);
  EXPECT_EQ(small(now.allocated_bytes).current, 1024);
  EXPECT_EQ(large(now.allocated_bytes).current, 3 * kMiB);
  EXPECT_EQ(all(now.requested_bytes).current, 1000 + 3 * kMiB);
  EXPECT_EQ(all(now.active_bytes).current, 1024 + 3 * kMiB);
  EXPECT_EQ(small(now.reserved_bytes).current, kPage);
  EXPECT_EQ(large(now.reserved_bytes).current, 2 * kPage);
  EXPECT_EQ(all(now.segment).current, 2);
  EXPECT_EQ(now.num_device_alloc, 2);
  // What no block lies on of the two segments: 2 MiB - 1 KiB, and 1 MiB.
  EXPECT_EQ(all(now.inactive_split).current, 2);
  EXPECT_EQ(small(now.inactive_split_bytes).current, kPage - 1024);
  EXPECT_EQ(large(now.inactive_split_bytes).current, kMiB);
  EXPECT_EQ(now.max_split_size, -1);
  EXPECT_EQ(now.oversize_allocations.current, 0);
  give(few);
  give(many);
}

TEST_F(CudaAllocatorTest, WhatIsFreedIsKeptAndWhatIsEmptiedGoes) {
  give(take(3 * kMiB));
  auto now = stats();
  EXPECT_EQ(all(now.allocated_bytes).current, 0);
  EXPECT_EQ(all(now.allocated_bytes).peak, 3 * kMiB);
  EXPECT_EQ(all(now.allocated_bytes).allocated, 3 * kMiB);
  EXPECT_EQ(all(now.allocated_bytes).freed, 3 * kMiB);
  EXPECT_EQ(all(now.reserved_bytes).current, 2 * kPage);
  EXPECT_EQ(all(now.inactive_split_bytes).current, 0) << "a segment without blocks is not split";
  allocator_->emptyCache({0, 0});
  now = stats();
  EXPECT_EQ(all(now.reserved_bytes).current, 0);
  EXPECT_EQ(all(now.reserved_bytes).peak, 2 * kPage);
  EXPECT_EQ(all(now.segment).current, 0);
  EXPECT_EQ(now.num_device_free, 1);
  EXPECT_EQ(gpu().mapped_bytes, 0);
}

TEST_F(CudaAllocatorTest, PeaksAndSumsStartAgain) {
  give(take(3 * kMiB));
  void* kept = take(kMiB);
  allocator_->resetPeakStats(0);
  EXPECT_EQ(all(stats().allocated_bytes).peak, kMiB);
  allocator_->resetAccumulatedStats(0);
  const auto now = stats();
  EXPECT_EQ(all(now.allocated_bytes).allocated, 0);
  EXPECT_EQ(all(now.allocated_bytes).current, kMiB);
  EXPECT_EQ(now.num_device_alloc, 0);
  give(kept);
}

TEST_F(CudaAllocatorTest, DevicesAreCountedApart) {
  void* here = take(kMiB);
  source_->device = 1;
  void* there = take(4 * kMiB);
  EXPECT_EQ(all(allocator_->getDeviceStats(0).allocated_bytes).current, kMiB);
  EXPECT_EQ(all(allocator_->getDeviceStats(1).allocated_bytes).current, 4 * kMiB);
  give(here);  // from whichever device is current
  EXPECT_EQ(all(allocator_->getDeviceStats(0).allocated_bytes).current, 0);
  give(there);
}

TEST_F(CudaAllocatorTest, AnEmptyBlockIsNone) {
  const c10::DataPtr none = allocator_->allocate(0);
  EXPECT_EQ(none.get(), nullptr);
  EXPECT_EQ(none.device(), c10::Device(c10::kCUDA, 0));
  give(nullptr);
}

TEST_F(CudaAllocatorTest, BlocksOfTorchsAreFreedByTheirOwner) {
  {
    const c10::DataPtr block = allocator_->allocate(1000);
    EXPECT_NE(block.get(), nullptr);
    EXPECT_EQ(block.get_context(), block.get()) << "as raw_allocate() needs it";
    EXPECT_EQ(block.get_deleter(), allocator_->raw_deleter());
    EXPECT_EQ(all(stats().allocation).current, 1);
  }
  EXPECT_EQ(all(stats().allocation).current, 0);
}

TEST_F(CudaAllocatorTest, AForeignPointerAndADoubleFreeAreErrors) {
  void* block = take(kMiB);
  int foreign = 0;
  EXPECT_THROW(give(&foreign), c10::Error);
  EXPECT_THROW(give(static_cast<char*>(block) + 512), c10::Error);
  give(block);
  EXPECT_THROW(give(block), c10::Error);
  EXPECT_EQ(all(stats().allocation).current, 0);
}

TEST_F(CudaAllocatorTest, TheBaseIsTheRunOfPages) {
  void* first = take(3 * kMiB);
  void* second = take(kMiB);  // in the same four
  std::size_t bytes = 0;
  EXPECT_EQ(allocator_->getBaseAllocation(second, &bytes),
            allocator_->getBaseAllocation(first, nullptr));
  EXPECT_EQ(bytes, static_cast<std::size_t>(2 * kPage));
  EXPECT_THROW(allocator_->getBaseAllocation(&bytes, nullptr), c10::Error);
  give(first);
  give(second);
  EXPECT_THROW(allocator_->getBaseAllocation(first, nullptr), c10::Error);
}

TEST_F(CudaAllocatorTest, TheCacheCanBecomeOneBlock) {
  give(take(8 * kMiB));
  std::size_t largest = 1;  // a guess of the caller's
  allocator_->cacheInfo(0, &largest);
  EXPECT_EQ(largest, static_cast<std::size_t>(8 * kMiB));
}

// cuDNN chooses an algorithm, and so bits, by the answer: it is one, whatever the budget is and
// whatever is free. The device has 256 MiB.
TEST_F(CudaAllocatorTest, TheLargestWorkspaceIsThatOfAnIdleDevice) {
  for (const Bytes budget : {allocator::kUnlimited, 64 * kMiB, 16 * kMiB}) {
    make(budget);
    void* const block = take(8 * kMiB);
    std::size_t largest = 0;
    allocator_->cacheInfo(0, &largest);
    EXPECT_EQ(largest, static_cast<std::size_t>(256 * kMiB)) << budget;
    give(block);
  }
}

TEST_F(CudaAllocatorTest, SegmentsGrowByStream) {
  void* a = take(kPage, stream(1));
  void* b = take(2 * kPage, stream(2));
  const auto sizes = allocator_->getExpandableSegmentSizes(0);
  ASSERT_EQ(sizes.size(), 2U);
  std::map<cudaStream_t, std::size_t> by_stream;
  for (const auto& size : sizes) by_stream[size.stream] = size.total_size;
  EXPECT_EQ(by_stream[stream(1)], static_cast<std::size_t>(kPage));
  EXPECT_EQ(by_stream[stream(2)], static_cast<std::size_t>(2 * kPage));
  give(a);
  give(b);
}

}  // namespace
}  // namespace ebbtide::plugin::cuda::test
