// What the order checker reports and what it does not (order.hpp), the same in each schedule. The
// numbers of reports are those of pairs of tasks that each test leaves in no order.
#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <string>
#include <thread>

#include "ebbtide/allocator/cuda/address_space.hpp"
#include "emulator_test.hpp"
#include "patterns.h"

namespace emulated_gpu {
namespace {

constexpr std::size_t kBytes = 64 << 10;

class OrderTest : public ::testing::Test {
 protected:
  void SetUp() override {
    auto* const on = ofEmulator<int()>("emulated_gpu_order");
    ASSERT_NE(on, nullptr) << "not run by the emulated GPU's `run`";
    ASSERT_NE(on(), 0) << "EMULATED_GPU_ORDER is not set";
    reports_ = ofEmulator<std::size_t()>("emulated_gpu_order_reports");
    host_access_ =
        ofEmulator<void(const char*, const void*, std::size_t, int)>("emulated_gpu_host_access");
    for (cudaStream_t* stream : {&first_, &second_}) {
      ASSERT_CUDA(cudaStreamCreateWithFlags(stream, cudaStreamNonBlocking));
    }
    for (cudaEvent_t* event : {&event_, &joined_}) {
      ASSERT_CUDA(cudaEventCreateWithFlags(event, cudaEventDisableTiming));
    }
    ASSERT_CUDA(cudaMalloc(reinterpret_cast<void**>(&block_), kBytes));
    ASSERT_CUDA(cudaMalloc(reinterpret_cast<void**>(&other_), kBytes));
    ASSERT_CUDA(cudaMallocHost(reinterpret_cast<void**>(&pinned_), kBytes));
  }
  void TearDown() override {
    if (reports_ == nullptr) return;
    EXPECT_EQ(reports(), 0U) << "a test takes what it expects";
    for (char* const block : {block_, other_}) EXPECT_EQ(cudaFree(block), cudaSuccess);
    EXPECT_EQ(cudaFreeHost(pinned_), cudaSuccess);
  }

  void write(cudaStream_t stream) { ASSERT_CUDA(cudaMemsetAsync(block_, 1, kBytes, stream)); }
  void read(cudaStream_t stream, char* to) {
    ASSERT_CUDA(cudaMemcpyAsync(to, block_, kBytes, cudaMemcpyDefault, stream));
  }
  void follow(cudaStream_t later, cudaStream_t earlier) {
    ASSERT_CUDA(cudaEventRecord(event_, earlier));
    ASSERT_CUDA(cudaStreamWaitEvent(later, event_, 0));
  }
  std::size_t reports() { return reports_(); }
  // Two branches that begin after a node, and end before the last.
  void captureBranches(cudaGraphExec_t* exec, bool ordered) {
    ASSERT_CUDA(cudaStreamBeginCapture(first_, cudaStreamCaptureModeGlobal));
    write(first_);
    follow(second_, first_);
    write(second_);
    ASSERT_CUDA(cudaEventRecord(joined_, second_));
    if (ordered) {
      ASSERT_CUDA(cudaStreamWaitEvent(first_, joined_, 0));
    }
    write(first_);
    ASSERT_CUDA(cudaStreamWaitEvent(first_, joined_, 0));
    write(first_);
    cudaGraph_t graph = nullptr;
    ASSERT_CUDA(cudaStreamEndCapture(first_, &graph));
    ASSERT_CUDA(cudaGraphInstantiateWithFlags(exec, graph, 0));
    ASSERT_CUDA(cudaGraphDestroy(graph));
  }

  cudaStream_t first_ = nullptr, second_ = nullptr;
  cudaEvent_t event_ = nullptr, joined_ = nullptr;
  char* block_ = nullptr;
  char* other_ = nullptr;
  char* pinned_ = nullptr;
  std::size_t (*reports_)() = nullptr;
  void (*host_access_)(const char*, const void*, std::size_t, int) = nullptr;
};

TEST_F(OrderTest, StreamsAreInNoOrder) {
  write(first_);
  write(first_);
  EXPECT_EQ(reports(), 0U) << "a stream is in order";
  write(second_);
  EXPECT_EQ(reports(), 1U) << "the last write stands for both";
}

TEST_F(OrderTest, AReadAndAWriteNeedAnOrder) {
  read(first_, other_);
  write(second_);
  EXPECT_EQ(reports(), 1U);
  ASSERT_CUDA(cudaDeviceSynchronize());
  write(first_);
  read(second_, other_);
  EXPECT_EQ(reports(), 1U);
}

TEST_F(OrderTest, ReadsNeedNone) {
  read(first_, other_);
  read(second_, pinned_);
  EXPECT_EQ(reports(), 0U);
  write(nullptr);  // these streams do not block: it comes after neither
  EXPECT_EQ(reports(), 2U);
}

TEST_F(OrderTest, OtherBytesNeedNone) {
  ASSERT_CUDA(cudaMemsetAsync(block_, 1, 100, first_));
  ASSERT_CUDA(cudaMemsetAsync(block_ + 100, 1, 100, second_));
  EXPECT_EQ(reports(), 0U);
  ASSERT_CUDA(cudaMemsetAsync(block_ + 99, 1, 1, second_));
  EXPECT_EQ(reports(), 1U);
}

TEST_F(OrderTest, AnEventOrdersWhatItRecorded) {
  write(first_);
  follow(second_, first_);
  write(second_);
  EXPECT_EQ(reports(), 0U);
  follow(first_, second_);
  ASSERT_CUDA(cudaEventRecord(event_, first_));
  write(first_);  // after the record
  ASSERT_CUDA(cudaStreamWaitEvent(second_, event_, 0));
  write(second_);
  EXPECT_EQ(reports(), 1U);
}

TEST_F(OrderTest, OrdersAddUp) {
  cudaStream_t between = nullptr;
  ASSERT_CUDA(cudaStreamCreateWithFlags(&between, cudaStreamNonBlocking));
  write(first_);
  follow(between, first_);
  follow(second_, between);
  write(second_);
  EXPECT_EQ(reports(), 0U);
}

TEST_F(OrderTest, AWaitOfTheHostOrders) {
  write(first_);
  ASSERT_CUDA(cudaStreamSynchronize(second_));  // another stream
  write(second_);
  EXPECT_EQ(reports(), 1U);
  ASSERT_CUDA(cudaStreamSynchronize(second_));
  write(first_);
  ASSERT_CUDA(cudaEventRecord(event_, first_));
  ASSERT_CUDA(cudaEventSynchronize(event_));
  write(second_);
  ASSERT_CUDA(cudaDeviceSynchronize());
  write(first_);
  char pageable[8];
  ASSERT_CUDA(cudaMemcpyAsync(pageable, block_, 8, cudaMemcpyDeviceToHost, first_));
  write(second_);  // to pageable memory: the host waited
  EXPECT_EQ(reports(), 0U);
}

TEST_F(OrderTest, AQueryOrdersWhenItIsTold) {
  ASSERT_CUDA(spinFor(4'000'000, first_));
  write(first_);
  ASSERT_CUDA(cudaEventRecord(event_, first_));
  ASSERT_EQ(cudaEventQuery(event_), cudaErrorNotReady);
  read(second_, other_);
  EXPECT_EQ(reports(), 1U);
  while (cudaEventQuery(event_) == cudaErrorNotReady) continue;
  read(second_, other_);
  EXPECT_EQ(reports(), 0U);
}

TEST_F(OrderTest, AStreamsQueryOrders) {
  write(first_);
  while (cudaStreamQuery(first_) == cudaErrorNotReady) continue;
  write(second_);
  EXPECT_EQ(reports(), 0U);
}

TEST_F(OrderTest, TheLegacyStreamIsInOrderWithThoseThatBlock) {
  cudaStream_t blocking = nullptr;
  ASSERT_CUDA(cudaStreamCreate(&blocking));
  write(blocking);
  write(nullptr);
  write(blocking);
  EXPECT_EQ(reports(), 0U);
  write(first_);
  EXPECT_EQ(reports(), 1U);
}

// What one thread asked for is in no order with what the next one asks for; what it waited for is.
TEST_F(OrderTest, AThreadIsNoOrder) {
  write(first_);
  std::thread([&] { write(second_); }).join();
  EXPECT_EQ(reports(), 1U);
  std::thread([&] { EXPECT_EQ(cudaStreamSynchronize(second_), cudaSuccess); }).join();
  write(first_);
  EXPECT_EQ(reports(), 0U);
}

TEST_F(OrderTest, BranchesOfAGraphAreInNoOrder) {
  cudaGraphExec_t exec = nullptr;
  captureBranches(&exec, false);
  EXPECT_EQ(reports(), 0U) << "what is captured does not run";
  ASSERT_CUDA(cudaGraphLaunch(exec, first_));
  EXPECT_EQ(reports(), 1U);
}

TEST_F(OrderTest, AGraphIsInOrderWithItsStreamAndItself) {
  cudaGraphExec_t exec = nullptr, next = nullptr;
  captureBranches(&exec, true);
  captureBranches(&next, true);
  write(first_);
  ASSERT_CUDA(cudaGraphLaunch(exec, first_));
  write(first_);
  ASSERT_CUDA(cudaGraphLaunch(exec, first_));
  ASSERT_CUDA(cudaGraphLaunch(exec, second_));  // after the launch before
  EXPECT_EQ(reports(), 0U);
  ASSERT_CUDA(cudaGraphLaunch(next, first_));  // another graph: its first write is in no order
  EXPECT_EQ(reports(), 1U);
}

// 64 rows of 256 bytes, 512 apart; the other ones lie between.
TEST_F(OrderTest, RowsBetweenRowsNeedNone) {
  const auto copy = [&](std::size_t at, std::size_t bytes, cudaStream_t stream) {
    EXPECT_EQ(
        cudaMemcpy2DAsync(block_ + at, 512, pinned_, 512, bytes, 64, cudaMemcpyDefault, stream),
        cudaSuccess);
  };
  copy(0, 256, first_);
  copy(256, 256, second_);
  EXPECT_EQ(reports(), 0U);
  copy(255, 1, second_);
  EXPECT_EQ(reports(), 1U) << "64 rows of the same two tasks";
  ASSERT_CUDA(cudaMemsetAsync(block_ + 63 * 512, 1, 1, second_));
  EXPECT_EQ(reports(), 1U) << "the last row";
}

TEST_F(OrderTest, TheHostWaitsForItsBuffers) {
  read(first_, pinned_);
  host_access_("loop", pinned_, 8, 0);
  EXPECT_EQ(reports(), 1U);
  ASSERT_CUDA(cudaStreamSynchronize(first_));
  host_access_("loop", pinned_, 8, 0);
  EXPECT_EQ(reports(), 0U);
  ASSERT_CUDA(cudaMemcpyAsync(block_, pinned_, kBytes, cudaMemcpyHostToDevice, first_));
  host_access_("loop", pinned_, 8, 0);
  EXPECT_EQ(reports(), 0U) << "both read";
  host_access_("loop", pinned_, 8, 1);
  EXPECT_EQ(reports(), 1U);
}

TEST_F(OrderTest, ABufferThatIsUsedAgainNeedsAnOrder) {
  read(first_, pinned_);
  ASSERT_CUDA(cudaMemcpyAsync(other_, pinned_, kBytes, cudaMemcpyHostToDevice, second_));
  EXPECT_EQ(reports(), 1U);
}

TEST_F(OrderTest, OurKernelsTellWhatTheyTouch) {
  ASSERT_CUDA(writePattern(block_, kBytes, 1, first_));
  auto* const wrong = reinterpret_cast<unsigned long long*>(other_);
  ASSERT_CUDA(checkPattern(block_, kBytes, 1, wrong, second_));
  EXPECT_EQ(reports(), 1U);
  ASSERT_CUDA(cudaMemsetAsync(other_ + 8, 0, 8, first_));
  EXPECT_EQ(reports(), 0U);
  ASSERT_CUDA(cudaMemsetAsync(other_, 0, 8, first_));
  EXPECT_EQ(reports(), 1U);
}

TEST_F(OrderTest, WhatIsFreedInAStreamIsNotUsedInAnother) {
  void* block = nullptr;
  ASSERT_CUDA(cudaMallocAsync(&block, kBytes, first_));
  ASSERT_CUDA(cudaMemsetAsync(block, 1, kBytes, second_));
  ASSERT_CUDA(cudaFreeAsync(block, first_));
  EXPECT_EQ(reports(), 1U);
  ASSERT_CUDA(cudaDeviceSynchronize());
}

// cudaFree waits for the device; the addresses mean other memory from then on.
TEST_F(OrderTest, AFreedBlockIsForgotten) {
  write(first_);
  ASSERT_CUDA(cudaFree(block_));
  void* again = nullptr;
  ASSERT_CUDA(cudaMalloc(&again, kBytes));
  EXPECT_EQ(again, block_) << "the emulator's lowest free block";
  write(second_);
  EXPECT_EQ(reports(), 0U);
}

TEST_F(OrderTest, AnUnmappedPageIsNotInUse) {
  const char* const schedule = std::getenv("EMULATED_GPU_SCHEDULE");
  if (schedule != nullptr && std::string(schedule) != "eager") {
    GTEST_SKIP() << "a task that runs later faults there";
  }
  ebbtide::allocator::cuda::CudaAddressSpace space(openedDevice());
  void* const begin = space.reserve(space.pageBytes());
  for (const bool waits : {false, true}) {
    ASSERT_TRUE(space.map(begin, space.pageBytes()));
    ASSERT_CUDA(writePattern(begin, 4096, 1, waits ? first_ : second_));
    EXPECT_EQ(reports(), 0U) << "other memory than before";
    if (waits) {
      ASSERT_CUDA(cudaStreamSynchronize(first_));
    }
    space.unmap(begin, space.pageBytes());
    EXPECT_EQ(reports(), waits ? 0U : 1U);
  }
  space.release(begin, space.pageBytes());
}

TEST_F(OrderTest, AReportIsTheExitStatus) {
  EXPECT_EXIT(
      {
        write(first_);
        read(second_, other_);
        std::exit(0);
      },
      ::testing::ExitedWithCode(86),
      "no order: a copy .task 1 of stream [0-9]+. reads 65536 bytes at 0x[0-9a-f]+ that a fill "
      ".task 1 of stream [0-9]+. writes: it comes after no task of stream [0-9]+, by");
  EXPECT_EXIT(std::exit(0), ::testing::ExitedWithCode(0), "");
}

}  // namespace
}  // namespace emulated_gpu
