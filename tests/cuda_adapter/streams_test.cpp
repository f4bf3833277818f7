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
  beginCapture(graph, [](cudaStream_t) { return false; });
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
  endCapture(graph);
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
  beginCapture(graph, [](cudaStream_t) { return false; });
  gpu().finishAll();
  const int asked = gpu().asked;
  for (int i = 0; i < 10; ++i) give(take(kMiB));
  allocator_->emptyCache({0, 0});
  EXPECT_EQ(gpu().asked, asked);
  endCapture(graph);
  give(take(kMiB));
  EXPECT_GT(gpu().asked, asked);
  EXPECT_EQ(all(stats().active).current, 0);
  allocator_->releasePool(0, graph);
}

// A peer reads device 0's memory on a stream of its own. Stream 0 of device 1 has the handle of the
// block's own stream.
class OtherDeviceTest : public CudaAllocatorTest, public ::testing::WithParamInterface<int> {
 protected:
  // Made, read by the other device, and freed.
  void* readThere() {
    const c10::DataPtr block = allocator_->allocate(static_cast<std::size_t>(kMiB));
    ++there().queued[stream(number_)];
    allocator_->recordStream(block, torchStream(number_, 1));
    return block.get();
  }
  HostGpu& there() { return source_->gpus[1]; }
  const std::uintptr_t number_ = static_cast<std::uintptr_t>(GetParam());
};

TEST_P(OtherDeviceTest, ABlockWaitsForItsStream) {
  void* const first = readThere();
  EXPECT_EQ(all(stats().active).current, 1) << "the other device may still read it";
  EXPECT_EQ(there().events.size(), 1U) << "an event of its own device";
  EXPECT_TRUE(gpu().events.empty());
  void* const second = take(kMiB);
  EXPECT_NE(second, first);
  allocator_->emptyCache({0, 0});  // waits for device 0, which has nothing to do
  EXPECT_EQ(all(stats().active).current, 2);
  there().finishAll();
  void* const third = take(kMiB);
  EXPECT_EQ(third, first);
  EXPECT_TRUE(there().events.empty()) << "events were lost";
  give(second);
  give(third);
}

TEST_P(OtherDeviceTest, WhatItRefusesItTellsWhenItIsIdle) {
  there().capturing = {stream(number_)};
  void* const first = readThere();
  EXPECT_TRUE(there().events.empty());
  there().capturing.clear();
  allocator_->emptyCache({0, 0});
  EXPECT_EQ(all(stats().active).current, 1);
  void* const second = take(kMiB);
  EXPECT_NE(second, first);
  there().answers = true;
  allocator_->emptyCache({0, 0});
  EXPECT_EQ(all(stats().active).current, 1) << "the second";
  give(second);
}

INSTANTIATE_TEST_SUITE_P(Streams, OtherDeviceTest, ::testing::Values(0, 3));

}  // namespace
}  // namespace ebbtide::plugin::cuda::test
