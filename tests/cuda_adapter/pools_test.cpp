// Private pools: memory of captured graphs, and torch.cuda.MemPool.
#include "host_devices.hpp"

namespace ebbtide::plugin::cuda::test {
namespace {

using Id = c10::MempoolId_t;
constexpr Id kGraph{1, 0};
constexpr Id kOther{0, 2};

class PoolsTest : public CudaAllocatorTest {
 protected:
  // What this thread asks for until end() is the pool's.
  void begin(const Id& id) {
    allocator_->beginAllocateToPool(0, id, [](cudaStream_t) { return true; });
  }
  void end(const Id& id) { allocator_->endAllocateToPool(0, id); }
  void* takeIn(const Id& id, Bytes bytes) {
    begin(id);
    void* block = take(bytes);
    end(id);
    return block;
  }
};

TEST_F(PoolsTest, WhatAGraphLeavesIsNobodyElses) {
  void* in_graph = takeIn(kGraph, 4 * kMiB);
  give(in_graph);  // free, but each replay writes to it
  for (int i = 0; i < 8; ++i) EXPECT_NE(take(4 * kMiB), in_graph);
  EXPECT_EQ(takeIn(kGraph, 4 * kMiB), in_graph) << "the pool itself has it again";
}

// Budget 16 MiB, 8 of them a graph's. What remains for others is 8, though the graph's are idle.
TEST_F(PoolsTest, PagesOfAGraphStayMapped) {
  make(16 * kMiB);
  void* in_graph = takeIn(kGraph, 8 * kMiB);
  std::memset(in_graph, 0x5a, 8 * kMiB);
  give(in_graph);
  EXPECT_THROW(take(10 * kMiB), c10::OutOfMemoryError);
  allocator_->emptyCache({0, 0});
  allocator_->emptyCache(kGraph);
  EXPECT_EQ(gpu().mapped_bytes, 8 * kMiB);
  EXPECT_EQ(static_cast<unsigned char*>(in_graph)[8 * kMiB - 1], 0x5a);
  std::size_t largest = 1;
  allocator_->cacheInfo(0, &largest);
  EXPECT_EQ(largest, 1U) << "it is no cache";

  allocator_->releasePool(0, kGraph);
  void* block = take(16 * kMiB);  // now they are anybody's
  give(block);
}

TEST_F(PoolsTest, AFilterTakesItsStreamsOnly) {
  allocator_->beginAllocateToPool(0, kGraph, [](cudaStream_t on) { return on == stream(1); });
  void* inside = take(kPage, stream(1));
  void* outside = take(kPage, stream(2));
  end(kGraph);
  const auto of_graph = allocator_->snapshot(kGraph, false).segments;
  ASSERT_EQ(of_graph.size(), 1U);
  EXPECT_EQ(of_graph[0].address, reinterpret_cast<std::size_t>(inside));
  EXPECT_EQ(of_graph[0].owner_private_pool_id, kGraph);
  EXPECT_EQ(of_graph[0].stream, stream(1)) << "the stream's handle, not our name of it";
  EXPECT_EQ(allocator_->snapshot({0, 0}, false).segments.size(), 2U);
  EXPECT_TRUE(allocator_->checkPoolLiveAllocations(0, kGraph, {inside}));
  EXPECT_FALSE(allocator_->checkPoolLiveAllocations(0, kGraph, {inside, outside}));
  EXPECT_FALSE(allocator_->checkPoolLiveAllocations(0, kGraph, {}));
  give(inside);
  give(outside);
  EXPECT_TRUE(allocator_->checkPoolLiveAllocations(0, kGraph, {}));
  allocator_->releasePool(0, kGraph);
}

TEST_F(PoolsTest, BlocksOutliveTheirPool) {
  void* block = takeIn(kGraph, 4 * kMiB);
  allocator_->releasePool(0, kGraph);
  std::memset(block, 1, 4 * kMiB);
  EXPECT_NE(take(4 * kMiB), block);
  give(block);
  EXPECT_THROW(allocator_->getPoolUseCount(0, kGraph), c10::Error) << "gone with its last block";
}

TEST_F(PoolsTest, UsesAreCounted) {
  allocator_->createOrIncrefPool(0, kOther, nullptr);
  EXPECT_EQ(allocator_->getPoolUseCount(0, kOther), 1);
  void* block = takeIn(kOther, kPage);
  EXPECT_EQ(allocator_->getPoolUseCount(0, kOther), 2);
  allocator_->releasePool(0, kOther);
  EXPECT_EQ(allocator_->getPoolUseCount(0, kOther), 1);
  give(block);
  allocator_->emptyCache({0, 0});
  EXPECT_EQ(gpu().mapped_bytes, kPage) << "one use is left";
  allocator_->releasePool(0, kOther);
  allocator_->emptyCache({0, 0});
  EXPECT_EQ(gpu().mapped_bytes, 0);
  EXPECT_THROW(allocator_->releasePool(0, kOther), c10::Error);
}

TEST_F(PoolsTest, TwoCannotRecordToOnePool) {
  begin(kGraph);
  EXPECT_THROW(begin(kGraph), c10::Error);
  end(kGraph);
  EXPECT_THROW(end(kGraph), c10::Error);
  // The refused ones count for nothing: no capture is under way any more.
  give(take(kPage));
  gpu().answers = true;
  allocator_->emptyCache({0, 0});
  EXPECT_EQ(gpu().asked, 1);
  EXPECT_EQ(gpu().mapped_bytes, 0);
}

// 300 graphs, each made and thrown away: more than the core has pools for streams.
TEST_F(PoolsTest, NamesServeAgain) {
  for (unsigned long long i = 1; i <= 300; ++i) {
    const Id id{i, 0};
    give(takeIn(id, kPage));
    allocator_->releasePool(0, id);
  }
  EXPECT_EQ(all(stats().reserved_bytes).peak, kPage);
}

// A replay, on a stream that the pool knows nothing of, goes on when its graph is thrown away.
TEST_F(PoolsTest, ANameServesAgainWhenTheDeviceHasBeenIdle) {
  constexpr Id kSecond{2, 0}, kThird{3, 0};
  void* of_first = takeIn(kGraph, kPage);
  give(of_first);
  ++gpu().queued[stream(9)];
  allocator_->releasePool(0, kGraph);
  void* of_second = takeIn(kSecond, kPage);
  EXPECT_NE(of_second, of_first) << "the replay writes there";
  // Another capture forbids to wait, also for this one.
  beginCapture(kOther, [](cudaStream_t) { return false; });
  gpu().finishAll();
  EXPECT_NE(takeIn(kThird, kPage), of_first);
  endCapture(kOther);
  EXPECT_EQ(takeIn({4, 0}, kPage), of_first);
}

TEST_F(PoolsTest, APoolThatIsUsedAgainKeepsItsPagesAgain) {
  void* block = takeIn(kOther, kPage);
  allocator_->releasePool(0, kOther);
  allocator_->createOrIncrefPool(0, kOther, nullptr);  // while the block lives
  give(block);
  allocator_->emptyCache({0, 0});
  EXPECT_EQ(gpu().mapped_bytes, kPage);
}

// As ~MemPool and its constructor call them: nothing may be thrown from a destructor.
TEST_F(PoolsTest, APoolThatIsMadeAndEndsAsTorchsDoes) {
  torch_cuda::CUDAAllocator& torchs = *allocator_;
  torchs.createOrIncrefPool(0, kOther, nullptr);
  EXPECT_NO_THROW(torchs.setNoSplit(0, kOther));
  EXPECT_NO_THROW(torchs.setUseOnOOM(0, kOther, false));
  torchs.releasePool(0, kOther);
}

TEST_F(PoolsTest, WhatIsNotSupportedSaysSo) {
  EXPECT_THROW(allocator_->getCheckpointState(0, kGraph), c10::NotImplementedError);
  EXPECT_THROW(allocator_->setCheckpointPoolState(0, nullptr), c10::NotImplementedError);
  EXPECT_THROW(allocator_->setUseOnOOM(0, kOther, true), c10::NotImplementedError);
  void* block = take(kPage);
  EXPECT_THROW(allocator_->shareIpcHandle(block), c10::NotImplementedError);
  EXPECT_THROW(allocator_->getIpcDevPtr("?"), c10::NotImplementedError);
  give(block);
}

}  // namespace
}  // namespace ebbtide::plugin::cuda::test
