// The rules of the virtual clock (docs/gpu.md), in mode *clock* with calls alone as the host's
// time: each number repeats. The table's values are named where they are added up.
#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>
#include <vector>

#include "capacity.hpp"
#include "ebbtide/allocator/cuda/address_space.hpp"
#include "emulator_test.hpp"
#include "patterns.h"
#include "seam.h"
#include "time_table.hpp"

namespace emulated_gpu {
namespace {

constexpr TimeTable kTable;
constexpr double kMiB = 1 << 20;
// A product of [1536, 512] and [512, 1408] in half precision has 12 x 11 tiles of 128 x 128, a
// wave: 2 * 128 * 128 * 512 operations at 0.8 * 989400 / 132 a nanosecond. The 12 x 6 tiles of 128
// x 256 take twice as long.
constexpr double kProduct = 2.0 * 128 * 128 * 512 / (0.8 * 989'400 / 132);

class ClockTest : public ::testing::Test {
 protected:
  void SetUp() override {
    const char* const mode = std::getenv("EMULATED_GPU_MODE");
    ASSERT_STREQ(mode, "clock");
    times_ = ofEmulator<std::size_t(double*, std::size_t)>("emulated_gpu_times");
    enqueue_ = ofEmulator<decltype(emulated_gpu_enqueue)>("emulated_gpu_enqueue");
    ASSERT_TRUE(times_ != nullptr && enqueue_ != nullptr) << "not run by the emulated GPU's `run`";
    for (cudaStream_t* const stream : {&first_, &second_}) {
      ASSERT_CUDA(cudaStreamCreateWithFlags(stream, cudaStreamNonBlocking));
    }
    for (cudaEvent_t* const event : {&begin_, &end_}) ASSERT_CUDA(cudaEventCreate(event));
    ASSERT_CUDA(cudaDeviceSynchronize());
  }

  double figure(std::size_t which) const {
    double all[12] = {};
    times_(all, 12);
    return all[which];
  }
  double now() const { return figure(0); }
  double waits() const { return figure(6); }
  // Some of a product's waves.
  void launch(cudaStream_t stream, double waves = 1) const {
    emulated_gpu_demand demand{};
    demand.m = 1536 * waves;
    demand.n = 1408;
    demand.k = 512;
    demand.batch = 1;
    demand.format = emulated_gpu_demand::EMULATED_GPU_HALF;
    const auto end = [](void*) {};
    ASSERT_CUDA(enqueue_(stream, "product", nullptr, end, nullptr, &demand, nullptr, 0));
  }
  double between() const {
    float milliseconds = 0;
    EXPECT_EQ(cudaEventElapsedTime(&milliseconds, begin_, end_), cudaSuccess);
    return 1e6 * static_cast<double>(milliseconds);
  }

  std::size_t (*times_)(double*, std::size_t) = nullptr;
  decltype(&emulated_gpu_enqueue) enqueue_ = nullptr;
  cudaStream_t first_ = nullptr, second_ = nullptr;
  cudaEvent_t begin_ = nullptr, end_ = nullptr;
};

// The launch returns, the kernel begins 3 µs later, takes its wave, and 1.1 µs after its end the
// host goes on.
TEST_F(ClockTest, ALaunchAndAWait) {
  const double from = now(), before = waits();
  launch(first_);
  EXPECT_DOUBLE_EQ(now() - from, kTable.launch);
  ASSERT_CUDA(cudaStreamSynchronize(first_));
  EXPECT_NEAR(now() - from, kTable.launch + kTable.latency + kProduct + kTable.wake, 0.01);
  EXPECT_EQ(waits() - before, 1);
  ASSERT_CUDA(cudaStreamSynchronize(first_));
  EXPECT_EQ(waits() - before, 1) << "it was done";
}

// Bytes decide where they take longer than operations, and two microseconds where both are less.
TEST_F(ClockTest, AKernelOfBytes) {
  void* block = nullptr;
  ASSERT_CUDA(cudaMalloc(&block, 256 << 20));
  for (const double bytes : {4096.0, 256 * kMiB}) {
    ASSERT_CUDA(cudaEventRecord(begin_, first_));
    ASSERT_CUDA(writePattern(block, static_cast<std::size_t>(bytes), 1, first_));
    ASSERT_CUDA(cudaEventRecord(end_, first_));
    ASSERT_CUDA(cudaEventSynchronize(end_));
    const double kernel = bytes < kMiB ? 2000 : bytes / (0.9 * 3350);
    // The kernel is launched after the first event, and both take as long to begin: what lies
    // between is the launch and the kernel. Each event takes its own time at its end.
    EXPECT_NEAR(between(), kTable.launch + kernel, 1);
  }
  ASSERT_CUDA(cudaFree(block));
}

// Ten waves of the first stream, then ten of the second at the same time: twenty in all, not ten.
TEST_F(ClockTest, StreamsShareTheDevice) {
  launch(first_, 10);
  launch(second_, 10);
  const double from = now();
  ASSERT_CUDA(cudaStreamSynchronize(second_));
  EXPECT_NEAR(now() - from, kTable.latency - kTable.launch + 20 * kProduct + kTable.wake, 0.01);
}

// A stream that waits for an event begins when what it records has ended, not when all is done
// that its stream was asked for since.
TEST_F(ClockTest, AnEventIsOfItsMoment) {
  launch(first_, 10);
  ASSERT_CUDA(cudaEventRecord(begin_, first_));
  void* pinned = nullptr;
  ASSERT_CUDA(cudaMallocHost(&pinned, 1 << 20));
  void* block = nullptr;
  ASSERT_CUDA(cudaMalloc(&block, 1 << 20));
  ASSERT_CUDA(cudaDeviceSynchronize());
  const double from = now();
  launch(first_, 10);
  ASSERT_CUDA(cudaEventRecord(begin_, first_));
  launch(first_, 10);
  ASSERT_CUDA(cudaStreamWaitEvent(second_, begin_, 0));
  ASSERT_CUDA(cudaMemcpyAsync(pinned, block, 1 << 20, cudaMemcpyDeviceToHost, second_));
  ASSERT_CUDA(cudaStreamSynchronize(second_));
  const double first = kTable.launch + kTable.latency + 10 * kProduct + kTable.timed_event;
  EXPECT_NEAR(now() - from, first + kTable.copy_start + kMiB / kTable.link + kTable.wake, 0.01);
  ASSERT_CUDA(cudaFree(block));
  ASSERT_CUDA(cudaFreeHost(pinned));
}

// 64 MiB each way. The first has the link's 55.3 GB/s, the other what is left of 99: 43.7, until
// the first has ended, then 55.3.
TEST_F(ClockTest, CopiesBothWaysShareTheLink) {
  const double bytes = 64 * kMiB;
  void *pinned = nullptr, *block = nullptr;
  ASSERT_CUDA(cudaMallocHost(&pinned, 128 << 20));
  ASSERT_CUDA(cudaMalloc(&block, 128 << 20));
  const double from = now();
  ASSERT_CUDA(cudaMemcpyAsync(block, pinned, 64 << 20, cudaMemcpyHostToDevice, first_));
  ASSERT_CUDA(cudaMemcpyAsync(static_cast<char*>(pinned) + (64 << 20),
                              static_cast<char*>(block) + (64 << 20), 64 << 20,
                              cudaMemcpyDeviceToHost, second_));
  ASSERT_CUDA(cudaStreamSynchronize(second_));
  const double cost = kTable.copy_start + bytes / 55.3;  // of one, alone
  const double begun = 2 * kTable.copy + kTable.latency;
  const double together = kTable.copy + kTable.latency + cost - begun;  // until the first ends
  const double rest = cost - together * 43.7 / 55.3;
  EXPECT_NEAR(now() - from, begun + together + rest + kTable.wake, 1);
  ASSERT_CUDA(cudaFree(block));
  ASSERT_CUDA(cudaFreeHost(pinned));
}

// 65 KiB of pageable memory are waited for, 64 are not.
TEST_F(ClockTest, FromPageableMemoryTheHostWaits) {
  std::vector<char> host(65 << 10);
  void* block = nullptr;
  ASSERT_CUDA(cudaMalloc(&block, host.size()));
  const double before = waits();
  ASSERT_CUDA(cudaMemcpyAsync(block, host.data(), 64 << 10, cudaMemcpyHostToDevice, first_));
  EXPECT_EQ(waits() - before, 0);
  ASSERT_CUDA(cudaMemcpyAsync(block, host.data(), 65 << 10, cudaMemcpyHostToDevice, first_));
  EXPECT_EQ(waits() - before, 1);
  ASSERT_CUDA(cudaFree(block));
}

// The thousand-and-first task waits for the first, of 10,000 waves.
TEST_F(ClockTest, AFullQueueHoldsTheHostUp) {
  const double again = now();
  launch(first_, 10'000);
  for (int i = 1; i < 1000; ++i) launch(first_);
  launch(first_);
  EXPECT_NEAR(now() - again, kTable.launch + kTable.latency + 10'000 * kProduct, 0.1);
  ASSERT_CUDA(cudaDeviceSynchronize());
}

// By the host's clock: not done, each query its cost, until the time has come. Who does nothing
// else between eight queries waits.
TEST_F(ClockTest, QueriesHearTheHostsTime) {
  launch(first_, 100);
  ASSERT_CUDA(cudaEventRecord(end_, first_));
  for (int i = 0; i < 20; ++i) {
    EXPECT_EQ(cudaEventQuery(end_), cudaErrorNotReady);
    ASSERT_CUDA(cudaEventRecord(begin_, second_));
  }
  const double before = waits();
  int asked = 1;
  while (cudaEventQuery(end_) == cudaErrorNotReady) ++asked;
  EXPECT_EQ(asked, 8);
  EXPECT_EQ(waits() - before, 1);
}

// Two pages come and go: created, mapped, opened; unmapped, released.
TEST_F(ClockTest, PagesCostTheirCalls) {
  ebbtide::allocator::cuda::CudaAddressSpace space(openedDevice());
  void* const begin = space.reserve(2 * space.pageBytes());
  const double calls = figure(2), pages = figure(9);
  ASSERT_TRUE(space.map(begin, 2 * space.pageBytes()));
  const double mapped = 2 * (kTable.page_created + kTable.page_mapped + kTable.page_access);
  EXPECT_NEAR(figure(2) - calls, mapped, 0.01);
  EXPECT_EQ(figure(9) - pages, 2);
  space.unmap(begin, 2 * space.pageBytes());
  const double all = mapped + 2 * (kTable.page_unmapped + kTable.page_released);
  EXPECT_NEAR(figure(2) - calls, all, 0.01);
  EXPECT_EQ(figure(9) - pages, 4);
  space.release(begin, 2 * space.pageBytes());
}

// Eight ranks exchange seven of eight parts of 360 MB at 360 GB/s, after 20 µs.
TEST_F(ClockTest, CommunicationTakesTheSlowestLinksTime) {
  const auto time = ofEmulator<double(std::size_t, int)>("emulated_gpu_communication_time");
  EXPECT_DOUBLE_EQ(time(360'000'000, 8), 20'000 + 875'000);
}

// Kernels are not run, so the check finds no wrong word in a block that nobody wrote: a comparison
// says "equal". A number that is copied to the host is 0, and 40 GiB take no memory.
TEST_F(ClockTest, NothingIsComputed) {
  constexpr std::size_t kBytes = std::size_t{40} << 30;
  void* block = nullptr;
  ASSERT_CUDA(cudaMalloc(&block, kBytes));
  unsigned long long wrong = 77;
  unsigned long long* const count = static_cast<unsigned long long*>(block);
  ASSERT_CUDA(checkPattern(static_cast<char*>(block) + 4096, kBytes - 4096, 3, count, first_));
  ASSERT_CUDA(cudaMemcpyAsync(&wrong, count, sizeof wrong, cudaMemcpyDeviceToHost, first_));
  EXPECT_EQ(wrong, 0U);
  ASSERT_CUDA(cudaFree(block));
}

// --- what is left of a device

// Taken from 10 to 20: 15 from 0 are served to 10, then from 20 to 25.
TEST(Capacity, GoesAroundWhatIsTaken) {
  Capacity device;
  device.take(10, 10);
  const Capacity::Span span = device.take(0, 15);
  EXPECT_DOUBLE_EQ(span.begin, 0);
  EXPECT_DOUBLE_EQ(span.end, 25);
  EXPECT_DOUBLE_EQ(device.take(0, 5).end, 30);
}

// A quarter is taken from 0 to 8. Work of 9 would take 12 with what is left: 6 are done at 8, the
// other 3 at 11.
TEST(Capacity, LeavesAShare) {
  Capacity device;
  device.occupy({0, 8}, 0.25);
  EXPECT_DOUBLE_EQ(device.take(0, 9).end, 11);
  device.occupy({0, 20}, 0.5);  // nothing is left before 11
  EXPECT_DOUBLE_EQ(device.take(0, 4.5).end, 20);
}

TEST(Capacity, ForgetsWhatIsOver) {
  Capacity device;
  device.take(0, 10);
  device.take(20, 10);
  device.forget(15);
  EXPECT_DOUBLE_EQ(device.take(15, 10).end, 35);
}

}  // namespace
}  // namespace emulated_gpu
