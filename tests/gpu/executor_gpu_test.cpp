// What the executor asks of a GPU, on a real one; skipped where there is none.
#include <c10/cuda/CUDAFunctions.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>

#include <algorithm>
#include <vector>

#include "../plugin/device_contents_contract.hpp"
#include "cuda/cuda_allocator.hpp"
#include "cuda/cuda_blocks.hpp"
#include "cuda/cuda_clock.hpp"
#include "cuda/cuda_contents.hpp"
#include "cuda/cuda_lanes.hpp"
#include "cuda/cuda_random.hpp"
#include "cuda/driver_device_source.hpp"
#include "cuda/pinned_spills.hpp"
#include "patterns.h"

namespace ebbtide::plugin {
namespace {

using namespace cuda;

bool hasGpu() {
  return c10::cuda::device_count() > 0;
}

// Bytes of the host on the device, for as long as it lives, at an address that is a multiple of 256
// or so many bytes beside one.
class Uploaded {
 public:
  Uploaded(const void* data, std::int64_t bytes, int beside = 0)
      : beside_(beside), bytes_(static_cast<std::size_t>(bytes)) {
    EXPECT_EQ(cudaMalloc(&block_, bytes_ + 256), cudaSuccess);
    EXPECT_EQ(cudaMemcpy(get(), data, bytes_, cudaMemcpyHostToDevice), cudaSuccess);
  }
  ~Uploaded() { cudaFree(block_); }
  Uploaded(const Uploaded&) = delete;
  Uploaded& operator=(const Uploaded&) = delete;

  void* get() const { return static_cast<char*>(block_) + beside_; }
  void download(void* to) const {
    EXPECT_EQ(cudaMemcpy(to, get(), bytes_, cudaMemcpyDeviceToHost), cudaSuccess);
  }

 private:
  void* block_ = nullptr;
  int beside_;
  std::size_t bytes_;
};

// CudaContents of what is uploaded for each question.
template <int beside>
class UploadingContents final : public DeviceContents {
 public:
  bool onHost() const noexcept override { return contents_.onHost(); }
  bool equalWhereWritten(const void* original, const FilledRun& first, const FilledRun& second,
                         std::int64_t bytes) const noexcept override {
    const Uploaded wanted(original, bytes, beside), one(first.data, bytes, beside);
    const Uploaded other(second.data, bytes);
    const bool same = first.data == second.data;
    return contents_.equalWhereWritten(wanted.get(), {one.get(), first.pattern},
                                       {same ? one.get() : other.get(), second.pattern}, bytes);
  }
  Fingerprint fingerprint(const void* data, std::int64_t bytes,
                          Fingerprint::Extent extent) const noexcept override {
    return contents_.fingerprint(Uploaded(data, bytes, beside).get(), bytes, extent);
  }
  Checksum checksum(const void* data, std::int64_t bytes) const noexcept override {
    return contents_.checksum(Uploaded(data, bytes, beside).get(), bytes);
  }
  void copy(void* to, const void* from, std::int64_t bytes) const override {
    const Uploaded source(from, bytes, beside), target(from, bytes);
    ASSERT_EQ(cudaMemset(target.get(), 0, static_cast<std::size_t>(bytes)), cudaSuccess);
    contents_.copy(target.get(), source.get(), bytes);
    ASSERT_EQ(cudaDeviceSynchronize(), cudaSuccess);
    target.download(to);
  }

 private:
  CudaContents contents_{0};
};

template <int beside>
std::shared_ptr<const DeviceContents> make() {
  return std::make_shared<UploadingContents<beside>>();
}

// Where there is no GPU the list is empty. Storages of others may begin anywhere.
std::vector<std::shared_ptr<const DeviceContents> (*)()> onGpu() {
  if (!hasGpu()) return {};
  return {&make<0>, &make<3>};
}

INSTANTIATE_TEST_SUITE_P(Gpu, DeviceContentsTest, ::testing::ValuesIn(onGpu()));
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(DeviceContentsTest);

class ExecutorGpuTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!hasGpu()) GTEST_SKIP() << "no GPU";
    heap_ = std::make_unique<DeviceHeap>(0, source_.open(0), settings_, observers_);
  }

  cudaStream_t now() { return c10::cuda::getCurrentCUDAStream(0).stream(); }

  DriverDeviceSource source_;
  HistorySettings settings_;
  OutOfMemoryObservers observers_;
  std::unique_ptr<DeviceHeap> heap_;
};

unsigned long long* newCount() {
  unsigned long long* count = nullptr;
  EXPECT_EQ(cudaMallocManaged(&count, sizeof *count), cudaSuccess);
  *count = 0;
  return count;
}

// Once all streams are done.
void expectPattern(const void* block, std::size_t bytes, unsigned long long seed) {
  unsigned long long* const wrong = newCount();
  ASSERT_EQ(cudaDeviceSynchronize(), cudaSuccess);
  ASSERT_EQ(checkPattern(block, bytes, seed, wrong, nullptr), cudaSuccess);
  ASSERT_EQ(cudaDeviceSynchronize(), cudaSuccess);
  EXPECT_EQ(*wrong, 0u);
}

// A kernel runs between the marks; the host has long gone on.
TEST_F(ExecutorGpuTest, TimesAreReadLater) {
  CudaClock clock(0);
  TimeSpan span(clock);
  ASSERT_EQ(spinFor(1'000'000, now()), cudaSuccess);
  span.end();
  EXPECT_GT(span.nanoseconds(), 0);
}

// The block is freed while its copy waits for a kernel that writes it, and given to a kernel that
// spoils it: what comes back is what was there when write() was called.
TEST_F(ExecutorGpuTest, AFreedBlockIsCopiedBeforeItIsUsedAgain) {
  constexpr std::size_t kBytes = 8 << 20;
  PinnedSpills spills(0, *heap_);
  void* const block = heap_->allocate(kBytes, now());
  ASSERT_EQ(spinFor(50'000'000, now()), cudaSuccess);
  ASSERT_EQ(writePattern(block, kBytes, 7, now()), cudaSuccess);
  const auto slot = spills.write(block, kBytes, SpillTarget::Afterwards::kFreed);
  ASSERT_TRUE(slot) << spills.lastError();
  heap_->free(block);
  void* const next = heap_->allocate(kBytes, now());
  ASSERT_EQ(writePattern(next, kBytes, 8, now()), cudaSuccess);
  void* const back = heap_->allocate(kBytes, now());
  ASSERT_TRUE(spills.read(*slot, back)) << spills.lastError();
  unsigned long long* const wrong = newCount();
  ASSERT_EQ(checkPattern(back, kBytes, 7, wrong, now()), cudaSuccess);
  ASSERT_EQ(cudaDeviceSynchronize(), cudaSuccess);
  EXPECT_EQ(*wrong, 0u);
  EXPECT_TRUE(spills.equals(*slot, back));
  EXPECT_FALSE(spills.equals(*slot, next));
  spills.release(*slot);
}

// The side stream reads what the first one writes late, and is written over after it.
TEST_F(ExecutorGpuTest, ALaneWaitsForTheOtherThereAndBack) {
  constexpr std::size_t kBytes = 8 << 20;
  const CudaLanes lanes(0, *heap_);
  const DeviceLanes::Lane first = lanes.now();
  const c10::cuda::CUDAStream side = c10::cuda::getStreamFromPool(/*isHighPriority=*/false, 0);
  void* const block = heap_->allocate(kBytes, now());
  unsigned long long* const wrong = newCount();
  ASSERT_EQ(spinFor(50'000'000, now()), cudaSuccess);
  ASSERT_EQ(writePattern(block, kBytes, 7, now()), cudaSuccess);
  {
    const LaneScope scope(lanes, side.id());
    EXPECT_TRUE(scope.switched());
    EXPECT_EQ(now(), side.stream());
    ASSERT_EQ(spinFor(50'000'000, now()), cudaSuccess);
    ASSERT_EQ(checkPattern(block, kBytes, 7, wrong, now()), cudaSuccess);
  }
  EXPECT_EQ(lanes.now(), first);
  ASSERT_EQ(writePattern(block, kBytes, 8, now()), cudaSuccess);
  ASSERT_EQ(cudaDeviceSynchronize(), cudaSuccess);
  EXPECT_EQ(*wrong, 0u);
}

// Whatever the executor asks, the capture goes on, and no error is left for torch to find.
TEST_F(ExecutorGpuTest, WhileAStreamIsCapturedTheDeviceIsAskedNothing) {
  constexpr std::int64_t kBytes = 1 << 20;
  const CudaLanes lanes(0, *heap_);
  const CudaContents contents(0);
  CudaClock clock(0);
  PinnedSpills spills(0, *heap_);
  const DeviceLanes::Lane first = lanes.now();
  const c10::cuda::CUDAStream side = c10::cuda::getStreamFromPool(/*isHighPriority=*/false, 0);
  void* const block = heap_->allocate(kBytes, side.stream());
  EXPECT_EQ(lanes.capture(), DeviceLanes::Capture::kNone);
  const c10::cuda::CUDAStreamGuard on_side(side);
  ASSERT_EQ(cudaStreamBeginCapture(side.stream(), cudaStreamCaptureModeGlobal), cudaSuccess);
  EXPECT_EQ(lanes.capture(), DeviceLanes::Capture::kHere);
  EXPECT_FALSE(contents.equal(block, block, kBytes));
  EXPECT_NE(contents.checksum(block, kBytes), contents.checksum(block, kBytes));
  EXPECT_EQ(clock.mark(), 0);
  EXPECT_FALSE(spills.write(block, kBytes, SpillTarget::Afterwards::kFreed));
  EXPECT_THROW(LaneScope(lanes, first), c10::Error);
  cudaGraph_t graph = nullptr;
  ASSERT_EQ(cudaStreamEndCapture(side.stream(), &graph), cudaSuccess);
  EXPECT_EQ(cudaGetLastError(), cudaSuccess);
  ASSERT_EQ(cudaGraphDestroy(graph), cudaSuccess);
  EXPECT_TRUE(contents.equal(block, block, kBytes));
}

// The stream of this thread is not captured, but another one is, and memory for its graph recorded.
TEST_F(ExecutorGpuTest, WhileAnotherStreamIsCapturedNothingJoinsItsGraph) {
  constexpr std::int64_t kBytes = 1 << 20;
  const CudaLanes lanes(0, *heap_);
  PinnedSpills spills(0, *heap_);
  const DeviceLanes::Lane first = lanes.now();
  const c10::cuda::CUDAStream side = c10::cuda::getStreamFromPool(/*isHighPriority=*/false, 0);
  void* const block = heap_->allocate(kBytes, now());
  ASSERT_EQ(cudaStreamBeginCapture(side.stream(), cudaStreamCaptureModeGlobal), cudaSuccess);
  heap_->beginCapture();
  EXPECT_EQ(lanes.capture(), DeviceLanes::Capture::kElsewhere);
  EXPECT_FALSE(spills.write(block, kBytes, SpillTarget::Afterwards::kFreed));
  EXPECT_THROW(LaneScope(lanes, side.id()), c10::Error);
  EXPECT_EQ(lanes.now(), first);
  heap_->endCapture();
  cudaGraph_t graph = nullptr;
  ASSERT_EQ(cudaStreamEndCapture(side.stream(), &graph), cudaSuccess);
  EXPECT_EQ(cudaGetLastError(), cudaSuccess);
  ASSERT_EQ(cudaGraphDestroy(graph), cudaSuccess);
  EXPECT_EQ(lanes.capture(), DeviceLanes::Capture::kNone);
}

// The driver ends a capture for a wait or a query elsewhere, unless its thread says that it is none
// of the graph's.
TEST_F(ExecutorGpuTest, WhatIsAskedBesideACaptureDoesNotEndIt) {
  constexpr std::int64_t kBytes = 1 << 20;
  const CudaContents contents(0);
  CudaClock clock(0);
  PinnedSpills spills(0, *heap_);
  const c10::cuda::CUDAStream side = c10::cuda::getStreamFromPool(/*isHighPriority=*/false, 0);
  void* const block = heap_->allocate(kBytes, now());
  TimeSpan span(clock);
  ASSERT_EQ(writePattern(block, kBytes, 7, now()), cudaSuccess);
  span.end();
  const auto slot = spills.write(block, kBytes, SpillTarget::Afterwards::kWritten);
  ASSERT_TRUE(slot) << spills.lastError();
  ASSERT_EQ(cudaStreamBeginCapture(side.stream(), cudaStreamCaptureModeGlobal), cudaSuccess);
  EXPECT_TRUE(contents.equal(block, block, kBytes));
  EXPECT_TRUE(spills.equals(*slot, block));
  EXPECT_GT(spills.roundTripBytesPerSecond(), 0);
  EXPECT_GT(span.nanoseconds(), 0);
  cudaGraph_t graph = nullptr;
  ASSERT_EQ(cudaStreamEndCapture(side.stream(), &graph), cudaSuccess);
  EXPECT_EQ(cudaGetLastError(), cudaSuccess);
  ASSERT_EQ(cudaGraphDestroy(graph), cudaSuccess);
}

// Its owner frees the block while the other stream, which waits for a kernel, has yet to read it.
TEST_F(ExecutorGpuTest, ABlockThatIsReadElsewhereIsNotUsedAgainBefore) {
  constexpr std::size_t kBytes = 8 << 20;
  const CudaLanes lanes(0, *heap_);
  const c10::cuda::CUDAStream side = c10::cuda::getStreamFromPool(/*isHighPriority=*/false, 0);
  void* const block = heap_->allocate(kBytes, now());
  const c10::Storage storage(c10::Storage::use_byte_size_t(), kBytes,
                             c10::DataPtr(block, c10::Device(c10::kCUDA, 0)));
  unsigned long long* const wrong = newCount();
  ASSERT_EQ(writePattern(block, kBytes, 7, now()), cudaSuccess);
  ASSERT_EQ(cudaDeviceSynchronize(), cudaSuccess);
  {
    const c10::cuda::CUDAStreamGuard on_side(side);
    lanes.readHere(storage);
    ASSERT_EQ(spinFor(50'000'000, now()), cudaSuccess);
    ASSERT_EQ(checkPattern(block, kBytes, 7, wrong, now()), cudaSuccess);
  }
  heap_->free(block);
  void* const next = heap_->allocate(kBytes, now());
  ASSERT_EQ(writePattern(next, kBytes, 8, now()), cudaSuccess);
  ASSERT_EQ(cudaDeviceSynchronize(), cudaSuccess);
  EXPECT_EQ(*wrong, 0u);
}

// What a verification step's ops leave unwritten has the pattern: each byte, whatever was there
// before.
TEST_F(ExecutorGpuTest, NewMemoryIsFilledWithThePattern) {
  constexpr std::size_t kBytes = (1 << 20) + 1;
  CudaAllocator cuda_allocator(std::make_unique<DriverDeviceSource>(),
                               [](const DeviceHeap&) { return allocator::kUnlimited; });
  cuda_allocator.init(1);
  void* const plain = cuda_allocator.raw_alloc(kBytes);
  ASSERT_EQ(cudaMemset(plain, 0x11, kBytes), cudaSuccess);
  cuda_allocator.raw_delete(plain);
  const FillPattern before = TorchBlocks::fillNew(static_cast<unsigned char>(0x5a));
  void* const filled = cuda_allocator.raw_alloc(kBytes);
  TorchBlocks::fillNew(before);
  std::vector<unsigned char> contents(kBytes);
  ASSERT_EQ(cudaMemcpy(contents.data(), filled, kBytes, cudaMemcpyDeviceToHost), cudaSuccess);
  EXPECT_EQ(std::count(contents.begin(), contents.end(), 0x5a), std::int64_t{kBytes});
  cuda_allocator.raw_delete(filled);
}

// As of the host's blocks, though no free of a GPU's keeps one (memory/dropped_blocks.hpp).
TEST_F(ExecutorGpuTest, AnAdoptedBlockIsFreedWithItsStorage) {
  constexpr std::size_t kBytes = 1 << 20;
  CudaAllocator cuda_allocator(std::make_unique<DriverDeviceSource>(),
                               [](const DeviceHeap&) { return allocator::kUnlimited; });
  cuda_allocator.init(1);
  DeviceHeap& heap = cuda_allocator.heaps().heap(0);
  const CudaBlocks blocks(0, heap);
  void* const block = cuda_allocator.raw_alloc(kBytes);
  c10::Storage storage = blocks.adopt(block, kBytes);
  EXPECT_TRUE(blocks.isOurs(storage));
  EXPECT_EQ(storage.data(), block);
  EXPECT_EQ(storage.nbytes(), kBytes);
  EXPECT_EQ(storage.device(), c10::Device(c10::kCUDA, 0));
  EXPECT_TRUE(heap.ledger().isOf(block, now()));
  storage = c10::Storage();
  EXPECT_FALSE(heap.ledger().isOf(block, now()));
}

// A replay draws from one that is set to where the op drew.
TEST_F(ExecutorGpuTest, AGeneratorThatIsMadeIsNobodyElses) {
  const CudaRandom random(0);
  at::Generator shared = random.shared().front();
  at::Generator made = random.make();
  EXPECT_EQ(made.device(), shared.device());
  made.set_current_seed(shared.current_seed() + 1);
  EXPECT_EQ(made.current_seed(), shared.current_seed() + 1);
  EXPECT_NE(random.make().current_seed(), made.current_seed());
}

// Two buffers of 8 MiB are all that there may be: a third one has to wait for a slot, and one of
// another size for its buffer.
TEST_F(ExecutorGpuTest, PinnedMemoryStaysWithinTheRanksShare) {
  constexpr std::int64_t kBytes = 8 << 20;
  PinnedSpills spills(0, *heap_, 2 * kBytes);
  void* const block = heap_->allocate(2 * kBytes, now());
  const auto write = [&](std::int64_t bytes) {
    return spills.write(block, bytes, SpillTarget::Afterwards::kWritten);
  };
  const auto first = write(kBytes), second = write(kBytes);
  ASSERT_TRUE(first && second) << spills.lastError();
  EXPECT_FALSE(write(kBytes));
  EXPECT_NE(spills.lastError().find("share of the host's memory"), std::string::npos);
  spills.release(*first);
  EXPECT_FALSE(write(2 * kBytes));
  spills.release(*second);
  EXPECT_TRUE(write(2 * kBytes)) << spills.lastError();
}

// A value that is back has left its slot, and its copy is timed all the same: plans are made when
// the step is over and holds none.
TEST_F(ExecutorGpuTest, TheRateIsThatOfCopiesWhoseValuesAreBack) {
  constexpr std::int64_t kBytes = 64 << 20;
  PinnedSpills spills(0, *heap_);
  EXPECT_EQ(spills.roundTripBytesPerSecond(), 0);
  void* const block = heap_->allocate(kBytes, now());
  const auto slot = spills.write(block, kBytes, SpillTarget::Afterwards::kWritten);
  ASSERT_TRUE(slot) << spills.lastError();
  ASSERT_TRUE(spills.read(*slot, block)) << spills.lastError();
  spills.release(*slot);
  // Above a slow disk's, below what any host's memory does.
  EXPECT_GT(spills.roundTripBytesPerSecond(), std::int64_t{100} << 20);
  EXPECT_LT(spills.roundTripBytesPerSecond(), std::int64_t{1} << 40);
}

// A slot whose buffer goes to another value once it is released. Made, and released, on the stream
// that is the current one then.
class ReusedBuffer {
 public:
  explicit ReusedBuffer(DeviceHeap& heap) : heap_(heap), spills_(0, heap) {
    EXPECT_EQ(writePattern(first_, kBytes, 1, stream_), cudaSuccess);
    EXPECT_EQ(writePattern(second_, kBytes, 2, stream_), cudaSuccess);
    slot_ = spills_.write(first_, kBytes, SpillTarget::Afterwards::kWritten).value();
  }

  // On the current stream, held up by a kernel there or not.
  void read(bool late) {
    read_.push_back(heap_.allocate(kBytes, stream_));
    if (late) {
      ASSERT_EQ(spinFor(50'000'000, c10::cuda::getCurrentCUDAStream(0).stream()), cudaSuccess);
    }
    ASSERT_TRUE(spills_.read(slot_, read_.back())) << spills_.lastError();
  }
  // Both values come through.
  void expectUsedAgain() {
    spills_.release(slot_);
    const auto other = spills_.write(second_, kBytes, SpillTarget::Afterwards::kFreed);
    ASSERT_TRUE(other) << spills_.lastError();
    EXPECT_TRUE(spills_.equals(*other, second_));  // waits for the copy
    for (const void* const block : read_) expectPattern(block, kBytes, 1);
  }

 private:
  static constexpr std::size_t kBytes = 8 << 20;

  DeviceHeap& heap_;
  PinnedSpills spills_;
  const cudaStream_t stream_ = c10::cuda::getCurrentCUDAStream(0).stream();
  void* const first_ = heap_.allocate(kBytes, stream_);
  void* const second_ = heap_.allocate(kBytes, stream_);
  SpillTarget::Slot slot_ = {};
  std::vector<void*> read_;
};

// The slot's buffer is written again while its reader's stream still waits for a kernel.
TEST_F(ExecutorGpuTest, ABufferIsReadBeforeItIsUsedAgain) {
  ReusedBuffer buffer(*heap_);
  buffer.read(/*late=*/true);
  buffer.expectUsedAgain();
}

// The host waits for the copy alone, which comes after a kernel that writes the block late.
TEST_F(ExecutorGpuTest, ACopyWaitsForTheStepsKernels) {
  constexpr std::size_t kBytes = 8 << 20;
  PinnedSpills spills(0, *heap_);
  void* const block = heap_->allocate(kBytes, now());
  ASSERT_EQ(spinFor(50'000'000, now()), cudaSuccess);
  ASSERT_EQ(writePattern(block, kBytes, 7, now()), cudaSuccess);
  const auto slot = spills.write(block, kBytes, SpillTarget::Afterwards::kFreed);
  ASSERT_TRUE(slot) << spills.lastError();
  EXPECT_TRUE(spills.equals(*slot, block));
}

// Somebody may write the block as soon as write() is back: it has been copied by then.
TEST_F(ExecutorGpuTest, ABlockThatMayBeWrittenIsCopiedAtOnce) {
  constexpr std::size_t kBytes = 8 << 20;
  PinnedSpills spills(0, *heap_);
  void* const block = heap_->allocate(kBytes, now());
  void* const back = heap_->allocate(kBytes, now());
  ASSERT_EQ(writePattern(block, kBytes, 7, now()), cudaSuccess);
  const auto slot = spills.write(block, kBytes, SpillTarget::Afterwards::kWritten);
  ASSERT_TRUE(slot) << spills.lastError();
  ASSERT_EQ(writePattern(block, kBytes, 8, now()), cudaSuccess);
  ASSERT_TRUE(spills.read(*slot, back)) << spills.lastError();
  expectPattern(back, kBytes, 7);
}

// The reader is on a stream that the writer does not wait for, but for the buffer.
TEST_F(ExecutorGpuTest, ABufferThatIsReadElsewhereIsNotWrittenBefore) {
  ReusedBuffer buffer(*heap_);
  {
    const c10::cuda::CUDAStreamGuard on_side(
        c10::cuda::getStreamFromPool(/*isHighPriority=*/false, 0));
    buffer.read(/*late=*/true);
  }
  buffer.expectUsedAgain();
}

// Two streams read the slot; the first one is the later: a kernel holds it up. Neither finds what
// the buffer has next.
TEST_F(ExecutorGpuTest, ABufferWaitsForEachOfItsReaders) {
  ReusedBuffer buffer(*heap_);
  {
    const c10::cuda::CUDAStreamGuard on_side(
        c10::cuda::getStreamFromPool(/*isHighPriority=*/false, 0));
    buffer.read(/*late=*/true);
  }
  buffer.read(/*late=*/false);
  buffer.expectUsedAgain();
}

// 8 MiB are compared at once: one byte more is another part.
TEST_F(ExecutorGpuTest, TheLastByteOfASlotIsCompared) {
  constexpr std::size_t kBytes = (8 << 20) + 1;
  PinnedSpills spills(0, *heap_);
  void* const block = heap_->allocate(kBytes, now());
  void* const last = static_cast<char*>(block) + kBytes - 1;
  ASSERT_EQ(cudaMemsetAsync(block, 1, kBytes, now()), cudaSuccess);
  const auto slot = spills.write(block, kBytes, SpillTarget::Afterwards::kWritten);
  ASSERT_TRUE(slot) << spills.lastError();
  EXPECT_TRUE(spills.equals(*slot, block));
  ASSERT_EQ(cudaMemsetAsync(last, 2, 1, now()), cudaSuccess);
  EXPECT_FALSE(spills.equals(*slot, block));
}

}  // namespace
}  // namespace ebbtide::plugin
