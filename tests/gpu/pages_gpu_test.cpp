// Pages, events and DeviceMemory on a real GPU.
#include <cstdlib>
#include <random>
#include <vector>

#include "gpu_test.hpp"

namespace ebbtide::allocator::cuda::test {
namespace {

char* bytesAt(void* begin, Bytes offset) {
  return static_cast<char*>(begin) + offset;
}

TEST_F(GpuTest, PagesCanBeWrittenMovedAndCounted) {
  CudaAddressSpace space(device_);
  const Bytes page = space.pageBytes();
  EXPECT_EQ(page % (2 * kMiB), 0);
  void* begin = space.reserve(64 * page);
  ASSERT_NE(begin, nullptr);
  const Bytes before = device_.memoryInfo().free_bytes;
  ASSERT_TRUE(space.map(begin, 8 * page));
  EXPECT_GE(before - device_.memoryInfo().free_bytes, 8 * page);
  ASSERT_CUDA(writePattern(begin, static_cast<unsigned long long>(8 * page), 1, streams_[0]));
  ASSERT_CUDA(
      checkPattern(begin, static_cast<unsigned long long>(8 * page), 1, wrong_, streams_[0]));
  EXPECT_EQ(wrongWords(), 0U);
  // In other pieces than it was mapped in.
  space.unmap(bytesAt(begin, 2 * page), 4 * page);
  ASSERT_TRUE(space.map(bytesAt(begin, 3 * page), 2 * page));
  ASSERT_CUDA(checkPattern(begin, static_cast<unsigned long long>(2 * page), 1, wrong_,
                           streams_[0]));  // untouched
  EXPECT_EQ(wrongWords(), 0U);
  space.release(begin, 64 * page);
  EXPECT_GE(device_.memoryInfo().free_bytes, before);
}

TEST_F(GpuTest, MoreThanTheDeviceHasIsRefusedWhole) {
  CudaAddressSpace space(device_);
  const MemoryInfo info = device_.memoryInfo();
  const Bytes much = (info.total_bytes / space.pageBytes() + 1) * space.pageBytes();
  void* begin = space.reserve(much);
  ASSERT_NE(begin, nullptr);
  EXPECT_FALSE(space.map(begin, much));
  // The driver may keep tables of where pages were.
  EXPECT_GE(device_.memoryInfo().free_bytes + info.total_bytes / 1000, info.free_bytes);
  space.release(begin, much);
}

TEST_F(GpuTest, AnEventFollowsItsStreamAlone) {
  CudaStreamEvents events(device_);
  ASSERT_CUDA(spinFor(400'000'000, streams_[0]));  // some 0.2 s
  const auto busy = events.record(nameOf(streams_[0]));
  const auto idle = events.record(nameOf(streams_[1]));
  EXPECT_FALSE(events.isDone(busy));
  ASSERT_CUDA(cudaStreamSynchronize(streams_[1]));
  EXPECT_TRUE(events.isDone(idle));
  EXPECT_FALSE(events.synchronize(std::chrono::milliseconds{1}));
  EXPECT_TRUE(events.synchronize(std::chrono::seconds{120}));
  EXPECT_TRUE(events.isDone(busy));
  events.recycle(busy);
  events.recycle(idle);
}

TEST_F(GpuTest, NothingIsRecordedIntoAGraph) {
  CudaStreamEvents events(device_);
  ASSERT_CUDA(cudaStreamBeginCapture(streams_[0], cudaStreamCaptureModeGlobal));
  EXPECT_EQ(events.record(nameOf(streams_[0])), StreamEvents::Event::kNone);
  const auto other = events.record(nameOf(streams_[1]));
  EXPECT_NE(other, StreamEvents::Event::kNone);
  (void)events.isDone(other);  // must not break the capture
  cudaGraph_t graph = nullptr;
  ASSERT_CUDA(cudaStreamEndCapture(streams_[0], &graph));
  ASSERT_CUDA(cudaGraphDestroy(graph));
  events.recycle(other);
}

// Fewer on an emulated GPU (GPU_TEST_STEPS).
unsigned long long steps() {
  const char* const given = std::getenv("GPU_TEST_STEPS");
  return given == nullptr ? 20'000 : std::strtoull(given, nullptr, 10);
}

// Random blocks on three streams; each is filled with a pattern of its own when it is made, and
// checked before it is freed. A budget that is too small makes pages move between the streams.
TEST_F(GpuTest, NoTwoLiveBlocksOverlap) {
  struct Live {
    void* block;
    unsigned long long bytes;
    unsigned long long seed;
    int stream;
  };
  makeMemory(256 * kMiB);
  std::mt19937_64 random(7);
  std::vector<Live> live;
  int refused = 0;
  const auto drop = [&](std::size_t index) {
    const Live gone = live[index];
    ASSERT_CUDA(checkPattern(gone.block, gone.bytes, gone.seed, wrong_, streams_[gone.stream]));
    memory_->deallocate(gone.block);
    live[index] = live.back();
    live.pop_back();
  };
  for (unsigned long long step = 1; step <= steps(); ++step) {
    const bool large = random() % 4 == 0;
    const auto bytes = static_cast<unsigned long long>(
        1 + random() % static_cast<unsigned long long>(large ? 24 * kMiB : 64 * kKiB));
    const int stream = static_cast<int>(random() % 3);
    void* block = memory_->allocate(bytes, nameOf(streams_[stream]));
    if (block == nullptr) {
      ++refused;
      while (!live.empty() && random() % 4 != 0) drop(random() % live.size());
      continue;
    }
    ASSERT_LE(memory_->statistics().mapped_bytes, 256 * kMiB);
    ASSERT_CUDA(writePattern(block, bytes, step, streams_[stream]));
    live.push_back({block, bytes, step, stream});
    if (live.size() > 200 || random() % 2 == 0) drop(random() % live.size());
    if (HasFatalFailure()) return;
  }
  while (!live.empty()) drop(live.size() - 1);
  EXPECT_EQ(wrongWords(), 0U);
  EXPECT_GT(refused, 0) << "the budget was never short";
  memory_->releaseCached();
  EXPECT_EQ(memory_->statistics().mapped_bytes, 0);
}

// Stream 0 makes the block, stream 1 still reads it when it is freed: stream 0's next block of the
// size must not be the same one before stream 1 is done.
TEST_F(GpuTest, ABlockWaitsForTheStreamThatReadsIt) {
  makeMemory(kUnlimited);
  const unsigned long long bytes = 4 * kMiB;
  for (unsigned long long round = 1; round <= 50; ++round) {
    void* block = memory_->allocate(bytes, nameOf(streams_[0]));
    ASSERT_CUDA(writePattern(block, bytes, round, streams_[0]));
    ASSERT_CUDA(cudaStreamSynchronize(streams_[0]));
    ASSERT_CUDA(spinFor(2'000'000, streams_[1]));
    ASSERT_CUDA(checkPattern(block, bytes, round, wrong_, streams_[1]));
    memory_->recordStream(block, nameOf(streams_[1]));
    memory_->deallocate(block);
    void* next = memory_->allocate(bytes, nameOf(streams_[0]));
    ASSERT_CUDA(writePattern(next, bytes, 1000 + round, streams_[0]));
    memory_->deallocate(next);
  }
  EXPECT_EQ(wrongWords(), 0U);
}

// In stream order a block is used again at once; pages that go to another stream wait.
TEST_F(GpuTest, PagesGoToAnotherStreamAfterTheWorkThatUsesThem) {
  makeMemory(64 * kMiB);
  const unsigned long long bytes = 48 * kMiB;
  for (unsigned long long round = 1; round <= 20; ++round) {
    const int from = static_cast<int>(round % 3);
    const int to = static_cast<int>((round + 1) % 3);
    void* block = memory_->allocate(bytes, nameOf(streams_[from]));
    ASSERT_NE(block, nullptr);
    ASSERT_CUDA(spinFor(5'000'000, streams_[from]));
    ASSERT_CUDA(writePattern(block, bytes, round, streams_[from]));
    ASSERT_CUDA(checkPattern(block, bytes, round, wrong_, streams_[from]));
    memory_->deallocate(block);
    void* next = memory_->allocate(bytes, nameOf(streams_[to]));
    ASSERT_NE(next, nullptr);
    ASSERT_CUDA(writePattern(next, bytes, 1000 + round, streams_[to]));
    memory_->deallocate(next);
  }
  EXPECT_EQ(wrongWords(), 0U);
}

}  // namespace
}  // namespace ebbtide::allocator::cuda::test
