// What the executor needs of the allocator: whose a block is, captures, refusals, and the
// reclaimer.
#include "host_devices.hpp"

namespace ebbtide::plugin::cuda::test {
namespace {

using TrainingTest = CudaAllocatorTest;

TEST_F(TrainingTest, ABlockIsOfOneStreamWhileItLives) {
  void* block = take(kMiB, stream(1));
  const DeviceHeap& heap = *allocator_->heaps().openHeap(0);
  EXPECT_TRUE(heap.ledger().isOf(block, stream(1)));
  EXPECT_FALSE(heap.ledger().isOf(block, stream(2)));
  EXPECT_FALSE(heap.ledger().isOf(block, nullptr));
  EXPECT_FALSE(heap.ledger().isOf(static_cast<char*>(block) + 512, stream(1))) << "not its start";
  give(block);
  EXPECT_FALSE(heap.ledger().isOf(block, stream(1)));
  void* of_default = take(kMiB);
  EXPECT_TRUE(heap.ledger().isOf(of_default, nullptr));
  give(of_default);
}

// Read on another stream when it was freed: nobody's until that one is done.
TEST_F(TrainingTest, AnAwaitingBlockIsNobodys) {
  void* block = take(kMiB, stream(1));
  const DeviceHeap& heap = *allocator_->heaps().openHeap(0);
  allocator_->heaps().openHeap(0)->recordStream(block, stream(2), *allocator_->heaps().openHeap(0));
  EXPECT_TRUE(heap.ledger().isOf(block, stream(1)));
  ++gpu().queued[stream(2)];
  give(block);
  EXPECT_FALSE(heap.ledger().isOf(block, stream(1)));
  gpu().finishAll();
}

TEST_F(TrainingTest, WhatGraphsMayWriteIsNobodys) {
  give(take(kMiB));
  const DeviceHeap& heap = *allocator_->heaps().openHeap(0);
  EXPECT_FALSE(heap.capturing());
  beginCapture({0, 1}, [](cudaStream_t) { return true; });
  EXPECT_TRUE(heap.capturing());
  void* block = take(kMiB, stream(1));
  endCapture({0, 1});
  EXPECT_FALSE(heap.capturing());
  EXPECT_FALSE(heap.ledger().isOf(block, stream(1)));
  give(block);
  allocator_->releasePool(0, {0, 1});
}

void refuse() {
  TORCH_CHECK_WITH(OutOfMemoryError, false, "refused");
}

TEST_F(TrainingTest, ATensorIsRefusedBeforeItGetsMemory) {
  TorchBlocks::refuseBy(&refuse);
  EXPECT_THROW(allocator_->allocate(kMiB), c10::OutOfMemoryError);
  EXPECT_EQ(source_->opened, 0);
  give(take(kMiB));  // what libraries ask for
  TorchBlocks::refuseBy(nullptr);
  EXPECT_NE(allocator_->allocate(kMiB).get(), nullptr);
}

// Gives up one block, which a copy on another stream still reads.
class OneBlock final : public allocator::Reclaimer {
 public:
  OneBlock(DeviceHeap& heap, void* block) : heap_(heap), block_(block) {}
  Bytes reclaim(const allocator::ReclaimRequest& request) noexcept override {
    need_bytes = request.need_bytes;
    if (block_ == nullptr) return 0;
    heap_.free(std::exchange(block_, nullptr));
    return 8 * kMiB;
  }
  Bytes need_bytes = 0;

 private:
  DeviceHeap& heap_;
  void* block_;
};

// The budget is 16 MiB. Others hold 2, 8 + 4 live, 4 are asked for: 2 too many.
TEST_F(TrainingTest, WhereTheBudgetIsShortValuesAreGivenUp) {
  make(16 * kMiB);
  gpu().others_bytes = 2 * kMiB;
  void* value = take(8 * kMiB, stream(1));
  void* other = take(4 * kMiB, stream(1));
  DeviceHeap& heap = *allocator_->heaps().openHeap(0);
  OneBlock reclaimer(heap, value);
  heap.memory().setReclaimer(&reclaimer);
  heap.recordStream(value, stream(2), heap);  // a copy to the host
  ++gpu().queued[stream(2)];
  gpu().answers = true;
  void* block = take(4 * kMiB, stream(1));
  EXPECT_EQ(reclaimer.need_bytes, 2 * kMiB);
  EXPECT_EQ(gpu().queued, gpu().finished) << "the copy was waited for";
  EXPECT_LE(gpu().mapped_bytes + gpu().others_bytes, 16 * kMiB);
  EXPECT_EQ(stats().num_ooms, 0);
  heap.memory().setReclaimer(nullptr);
  give(block);
  give(other);
}

// While a graph is captured the copy cannot be waited for, and its block is no use.
TEST_F(TrainingTest, NothingIsWaitedForDuringACapture) {
  make(16 * kMiB);
  void* value = take(12 * kMiB, stream(1));
  DeviceHeap& heap = *allocator_->heaps().openHeap(0);
  OneBlock reclaimer(heap, value);
  heap.memory().setReclaimer(&reclaimer);
  heap.recordStream(value, stream(2), heap);
  ++gpu().queued[stream(2)];
  gpu().answers = true;
  beginCapture({0, 1}, [](cudaStream_t) { return true; });
  const int asked = gpu().asked;
  EXPECT_THROW(take(8 * kMiB, stream(1)), c10::OutOfMemoryError);
  EXPECT_EQ(gpu().asked, asked);
  endCapture({0, 1});
  heap.memory().setReclaimer(nullptr);
  gpu().finishAll();
  allocator_->releasePool(0, {0, 1});
}

}  // namespace
}  // namespace ebbtide::plugin::cuda::test
