// Blocks that streams other than their own use.
#include "host_devices.hpp"

namespace ebbtide::plugin::cuda::test {
namespace {

TEST_F(CudaAllocatorTest, ABlockWaitsForTheStreamThatUsesIt) {
  void* first = nullptr;
  {
    const c10::DataPtr block = allocator_->allocate(static_cast<std::size_t>(kMiB));
    first = block.get();
    ++gpu().queued[stream(1)];
    allocator_->recordStream(block, torchStream(1));
  }
  auto now = stats();
  EXPECT_EQ(all(now.allocation).current, 0);
  EXPECT_EQ(all(now.active).current, 1) << "the other stream may still read it";
  EXPECT_EQ(all(now.active_bytes).current, kMiB);
  void* second = take(kMiB);
  EXPECT_NE(second, first);

  gpu().finishAll();
  void* third = take(kMiB);  // sees that the event is done
  EXPECT_EQ(third, first);
  EXPECT_EQ(all(stats().active).current, 2);
  give(second);
  give(third);
  EXPECT_EQ(all(stats().active).current, 0);
  EXPECT_TRUE(gpu().events.empty()) << "events were lost";
}

TEST_F(CudaAllocatorTest, ItsOwnStreamIsNotWaitedFor) {
  source_->stream = stream(4);
  void* first = nullptr;
  {
    const c10::DataPtr block = allocator_->allocate(static_cast<std::size_t>(kMiB));
    first = block.get();
    ++gpu().queued[stream(4)];
    allocator_->recordStream(block, torchStream(4));
  }
  EXPECT_EQ(all(stats().active).current, 0);
  EXPECT_EQ(gpu().next_event, 1U) << "no event";
  void* second = take(kMiB);
  EXPECT_EQ(second, first);
  give(second);
}

TEST_F(CudaAllocatorTest, EachOfSeveralStreamsIsWaitedFor) {
  {
    const c10::DataPtr block = allocator_->allocate(static_cast<std::size_t>(kMiB));
    for (const std::uintptr_t number : {1, 2, 1}) {
      ++gpu().queued[stream(number)];
      allocator_->recordStream(block, torchStream(number));
    }
  }
  EXPECT_EQ(gpu().events.size(), 2U) << "one a stream";
  gpu().finished[stream(1)] = gpu().queued[stream(1)];
  give(take(512));
  EXPECT_EQ(all(stats().active).current, 1);
  gpu().finishAll();
  give(take(512));
  EXPECT_EQ(all(stats().active).current, 0);
}

TEST_F(CudaAllocatorTest, MemoryOfOthersIsNotOurs) {
  int foreign = 0;
  const c10::DataPtr block(
      &foreign, &foreign, [](void*) {}, c10::Device(c10::kCUDA, 0));
  allocator_->recordStream(block, torchStream(1));
  allocator_->recordStream(c10::DataPtr(), torchStream(1));
}

// Freed while the stream is captured: no event tells when the graph has run, so the block waits for
// the next time that all streams are waited for.
TEST_F(CudaAllocatorTest, AStreamThatIsCapturedTellsNothing) {
  const c10::MempoolId_t graph{1, 0};
  allocator_->beginAllocateToPool(0, graph, [](cudaStream_t) { return false; });
  gpu().capturing = {stream(1)};
  void* first = nullptr;
  {
    const c10::DataPtr block = allocator_->allocate(static_cast<std::size_t>(kMiB));
    first = block.get();
    allocator_->recordStream(block, torchStream(1));
  }
  void* second = take(kMiB);
  EXPECT_NE(second, first);
  EXPECT_EQ(gpu().asked, 0) << "the driver forbids it in a capture";
  gpu().capturing.clear();
  allocator_->endAllocateToPool(0, graph);
  EXPECT_EQ(all(stats().active).current, 2);
  give(second);
  allocator_->emptyCache({0, 0});  // waits for all streams
  allocator_->emptyCache({0, 0});
  EXPECT_EQ(all(stats().active).current, 0);
  EXPECT_EQ(all(stats().reserved_bytes).current, 0);
  allocator_->releasePool(0, graph);
}

TEST_F(CudaAllocatorTest, NothingIsAskedInACapture) {
  const c10::MempoolId_t graph{1, 0};
  {
    const c10::DataPtr block = allocator_->allocate(static_cast<std::size_t>(kMiB));
    ++gpu().queued[stream(1)];
    allocator_->recordStream(block, torchStream(1));
  }
  allocator_->beginAllocateToPool(0, graph, [](cudaStream_t) { return false; });
  gpu().finishAll();
  const int asked = gpu().asked;
  for (int i = 0; i < 10; ++i) give(take(kMiB));
  allocator_->emptyCache({0, 0});
  EXPECT_EQ(gpu().asked, asked);
  allocator_->endAllocateToPool(0, graph);
  give(take(kMiB));
  EXPECT_GT(gpu().asked, asked);
  EXPECT_EQ(all(stats().active).current, 0);
  allocator_->releasePool(0, graph);
}

}  // namespace
}  // namespace ebbtide::plugin::cuda::test
