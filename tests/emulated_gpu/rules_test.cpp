// What the emulated GPU promises, in each schedule: CUDA's rules of order, captures and memory.
#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "ebbtide/allocator/cuda/address_space.hpp"
#include "emulator_test.hpp"
#include "patterns.h"

namespace emulated_gpu {
namespace {

constexpr std::size_t kMiB = std::size_t{1} << 20;

std::string schedule() {
  const char* const text = std::getenv("EMULATED_GPU_SCHEDULE");
  return text == nullptr ? "eager" : text;
}

class RulesTest : public ::testing::Test {
 protected:
  void SetUp() override {
    int count = 0;
    ASSERT_CUDA(cudaGetDeviceCount(&count)) << "not run by the emulated GPU's `run`";
    cudaDeviceProp properties;
    ASSERT_CUDA(cudaGetDeviceProperties(&properties, 0));
    ASSERT_STREQ(properties.name, "Emulated GPU");
    for (cudaStream_t& stream : streams_) {
      ASSERT_CUDA(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    }
    ASSERT_CUDA(cudaEventCreateWithFlags(&event_, cudaEventDisableTiming));
  }

  struct Note {
    std::vector<int>* all;
    int number;
  };
  // The number is noted when the stream comes to it.
  void note(int number, cudaStream_t stream) {
    auto* const data = new Note{&noted_, number};
    const auto run = [](void* given) {
      const auto* const it = static_cast<Note*>(given);
      it->all->push_back(it->number);
    };
    ASSERT_CUDA(cudaLaunchHostFunc(stream, run, data));
  }
  bool before(int first, int second) const {
    const auto at = [&](int number) { return std::find(noted_.begin(), noted_.end(), number); };
    return at(first) < at(second) && at(second) != noted_.end();
  }

  cudaStream_t streams_[2] = {};
  cudaEvent_t event_ = nullptr;
  std::vector<int> noted_;
};

TEST_F(RulesTest, AStreamIsInOrder) {
  for (int i = 0; i < 20; ++i) note(i, streams_[0]);
  ASSERT_CUDA(cudaStreamSynchronize(streams_[0]));
  ASSERT_EQ(noted_.size(), 20U);
  EXPECT_TRUE(std::is_sorted(noted_.begin(), noted_.end()));
}

TEST_F(RulesTest, NothingRunsBeforeItHasTo) {
  note(1, streams_[0]);
  const bool lazy = schedule() == "lazy", eager = schedule() == "eager";
  EXPECT_TRUE(!lazy || noted_.empty());
  EXPECT_TRUE(!eager || noted_.size() == 1);
  ASSERT_CUDA(cudaStreamSynchronize(streams_[1]));  // that is another stream
  EXPECT_TRUE(!lazy || noted_.empty());
  ASSERT_CUDA(cudaDeviceSynchronize());
  EXPECT_EQ(noted_.size(), 1U);
}

TEST_F(RulesTest, AWaitComesAfterWhatTheEventRecorded) {
  ASSERT_CUDA(spinFor(20'000'000, streams_[0]));
  note(1, streams_[0]);
  ASSERT_CUDA(cudaEventRecord(event_, streams_[0]));
  note(2, streams_[0]);  // not waited for
  ASSERT_CUDA(cudaStreamWaitEvent(streams_[1], event_, 0));
  note(3, streams_[1]);
  ASSERT_CUDA(cudaStreamSynchronize(streams_[1]));
  EXPECT_TRUE(before(1, 3));
  ASSERT_CUDA(cudaDeviceSynchronize());
  EXPECT_TRUE(before(1, 2));
}

TEST_F(RulesTest, TheLegacyStreamWaitsForThoseThatBlock) {
  cudaStream_t blocking = nullptr;
  ASSERT_CUDA(cudaStreamCreate(&blocking));
  ASSERT_CUDA(spinFor(20'000'000, blocking));
  note(1, blocking);
  note(2, nullptr);
  note(3, blocking);
  ASSERT_CUDA(cudaStreamSynchronize(nullptr));
  EXPECT_TRUE(before(1, 2));
  ASSERT_CUDA(cudaStreamSynchronize(blocking));
  EXPECT_TRUE(before(2, 3));
}

TEST_F(RulesTest, AnEventThatIsAskedForGetsDone) {
  ASSERT_CUDA(spinFor(4'000'000, streams_[0]));
  ASSERT_CUDA(cudaEventRecord(event_, streams_[0]));
  EXPECT_EQ(cudaEventQuery(event_), cudaErrorNotReady);
  int asked = 0;
  while (cudaEventQuery(event_) == cudaErrorNotReady && ++asked < 10'000) continue;
  EXPECT_LT(asked, 10'000);
  EXPECT_EQ(cudaGetLastError(), cudaSuccess) << "not ready is no error";
}

// 1 before 2 and 3, these before 4; 2 and 3 in any order. Eager: as captured; lazy: the other way.
TEST_F(RulesTest, NodesRunInAnOrderOfTheirEdges) {
  cudaEvent_t joined = nullptr;
  ASSERT_CUDA(cudaEventCreateWithFlags(&joined, cudaEventDisableTiming));
  ASSERT_CUDA(cudaStreamBeginCapture(streams_[0], cudaStreamCaptureModeGlobal));
  note(1, streams_[0]);
  ASSERT_CUDA(cudaEventRecord(event_, streams_[0]));
  ASSERT_CUDA(cudaStreamWaitEvent(streams_[1], event_, 0));
  note(2, streams_[0]);
  note(3, streams_[1]);
  ASSERT_CUDA(cudaEventRecord(joined, streams_[1]));
  ASSERT_CUDA(cudaStreamWaitEvent(streams_[0], joined, 0));
  note(4, streams_[0]);
  cudaGraph_t graph = nullptr;
  ASSERT_CUDA(cudaStreamEndCapture(streams_[0], &graph));
  EXPECT_TRUE(noted_.empty()) << "what is captured does not run";
  cudaGraphExec_t exec = nullptr;
  ASSERT_CUDA(cudaGraphInstantiateWithFlags(&exec, graph, 0));
  ASSERT_CUDA(cudaGraphDestroy(graph));
  bool second_first = false, third_first = false;
  for (int round = 0; round < 20; ++round) {
    noted_.clear();
    ASSERT_CUDA(cudaGraphLaunch(exec, streams_[1]));
    ASSERT_CUDA(cudaStreamSynchronize(streams_[1]));
    ASSERT_EQ(noted_.size(), 4U);
    EXPECT_EQ(noted_.front(), 1);
    EXPECT_EQ(noted_.back(), 4);
    (before(2, 3) ? second_first : third_first) = true;
  }
  const bool random = schedule().starts_with("random");
  EXPECT_EQ(second_first, random || schedule() == "eager" || schedule() == "timed");
  EXPECT_EQ(third_first, random || schedule() == "lazy");
  ASSERT_CUDA(cudaGraphExecDestroy(exec));
}

// --- captures (CUDA C++ Programming Guide, "Prohibited and Unhandled Operations")

TEST_F(RulesTest, ACaptureThatIsLeftOpenIsRefused) {
  ASSERT_CUDA(cudaStreamBeginCapture(streams_[0], cudaStreamCaptureModeGlobal));
  ASSERT_CUDA(cudaEventRecord(event_, streams_[0]));
  ASSERT_CUDA(cudaStreamWaitEvent(streams_[1], event_, 0));
  note(1, streams_[1]);
  cudaGraph_t graph = nullptr;
  EXPECT_EQ(cudaStreamEndCapture(streams_[0], &graph), cudaErrorStreamCaptureUnjoined);
  EXPECT_EQ(graph, nullptr);
  (void)cudaGetLastError();
}

TEST_F(RulesTest, WhatIsUnsafeEndsACapture) {
  struct Case {
    const char* what;
    cudaError_t (*call)(cudaStream_t, cudaEvent_t);
    cudaError_t error;
  };
  void* block = nullptr;
  static void** const at = &block;
  const Case cases[] = {
      {"allocate", [](cudaStream_t, cudaEvent_t) { return cudaMalloc(at, 1 << 20); },
       cudaErrorStreamCaptureUnsupported},
      {"ask the stream", [](cudaStream_t s, cudaEvent_t) { return cudaStreamQuery(s); },
       cudaErrorStreamCaptureUnsupported},
      {"wait for the device", [](cudaStream_t, cudaEvent_t) { return cudaDeviceSynchronize(); },
       cudaErrorStreamCaptureUnsupported},
      {"wait for an event of before",
       [](cudaStream_t s, cudaEvent_t e) { return cudaStreamWaitEvent(s, e, 0); },
       cudaErrorStreamCaptureIsolation}};
  for (const Case& each : cases) {
    ASSERT_CUDA(cudaEventRecord(event_, streams_[1]));
    ASSERT_CUDA(cudaStreamBeginCapture(streams_[0], cudaStreamCaptureModeGlobal));
    EXPECT_EQ(each.call(streams_[0], event_), each.error) << each.what;
    cudaGraph_t graph = nullptr;
    EXPECT_EQ(cudaStreamEndCapture(streams_[0], &graph), cudaErrorStreamCaptureInvalidated)
        << each.what;
    (void)cudaGetLastError();
  }
}

TEST_F(RulesTest, ARelaxedThreadMayAllocateInACapture) {
  ASSERT_CUDA(cudaStreamBeginCapture(streams_[0], cudaStreamCaptureModeGlobal));
  cudaStreamCaptureMode mode = cudaStreamCaptureModeRelaxed;
  ASSERT_CUDA(cudaThreadExchangeStreamCaptureMode(&mode));
  void* block = nullptr;
  EXPECT_EQ(cudaMalloc(&block, kMiB), cudaSuccess);
  ASSERT_CUDA(cudaThreadExchangeStreamCaptureMode(&mode));
  cudaGraph_t graph = nullptr;
  EXPECT_EQ(cudaStreamEndCapture(streams_[0], &graph), cudaSuccess);
  ASSERT_CUDA(cudaFree(block));
}

// --- memory

// Pageable memory has been read when the call returns; pinned memory is read when the stream comes.
TEST_F(RulesTest, PinnedMemoryIsReadLate) {
  if (schedule() != "lazy") GTEST_SKIP() << "only where nothing runs before it has to";
  int* device = nullptr;
  int* pinned = nullptr;
  int pageable = 1, found = 0;
  ASSERT_CUDA(cudaMalloc(reinterpret_cast<void**>(&device), sizeof *device));
  ASSERT_CUDA(cudaMallocHost(reinterpret_cast<void**>(&pinned), sizeof *pinned));
  const auto copy = [&](const int* from, int* value) {
    *value = 1;
    EXPECT_EQ(cudaMemcpyAsync(device, from, sizeof *device, cudaMemcpyHostToDevice, streams_[0]),
              cudaSuccess);
    *value = 2;
    EXPECT_EQ(cudaMemcpyAsync(&found, device, sizeof found, cudaMemcpyDeviceToHost, streams_[0]),
              cudaSuccess);
    return found;
  };
  EXPECT_EQ(copy(&pageable, &pageable), 1);
  EXPECT_EQ(copy(pinned, pinned), 2);
  ASSERT_CUDA(cudaFreeHost(pinned));
  ASSERT_CUDA(cudaFree(device));
}

TEST_F(RulesTest, NewMemoryIsPoisoned) {
  unsigned char* block = nullptr;
  unsigned char first = 0;
  ASSERT_CUDA(cudaMalloc(reinterpret_cast<void**>(&block), 4 * kMiB));
  ASSERT_CUDA(cudaMemcpy(&first, block, 1, cudaMemcpyDeviceToHost));
  EXPECT_EQ(first, 0xA5);
  ASSERT_CUDA(cudaFree(block));
}

// 100 blocks of 1 KiB lie in one page.
TEST_F(RulesTest, SmallBlocksShareAPage) {
  std::size_t before_bytes = 0, after_bytes = 0, total = 0;
  ASSERT_CUDA(cudaMemGetInfo(&before_bytes, &total));
  std::vector<void*> blocks(100);
  for (void*& each : blocks) ASSERT_CUDA(cudaMalloc(&each, 1024));
  ASSERT_CUDA(cudaMemGetInfo(&after_bytes, &total));
  EXPECT_LE(before_bytes - after_bytes, 2 * kMiB);
  for (void* const each : blocks) ASSERT_CUDA(cudaFree(each));
}

TEST_F(RulesTest, TheDeviceIsFullOnce) {
  std::size_t free = 0, total = 0;
  ASSERT_CUDA(cudaMemGetInfo(&free, &total));
  void* block = nullptr;
  EXPECT_EQ(cudaMalloc(&block, free + 2 * kMiB), cudaErrorMemoryAllocation);
  EXPECT_EQ(block, nullptr);
  EXPECT_EQ(cudaGetLastError(), cudaErrorMemoryAllocation);
  EXPECT_EQ(cudaGetLastError(), cudaSuccess);
}

// As on a GPU: a kernel that comes late to a page that is gone does not go on.
TEST_F(RulesTest, AnUnmappedPageFaults) {
  ebbtide::allocator::cuda::CudaAddressSpace space(openedDevice());
  void* const begin = space.reserve(2 * space.pageBytes());
  ASSERT_TRUE(space.map(begin, space.pageBytes()));
  ASSERT_CUDA(writePattern(begin, 4096, 1, streams_[0]));
  ASSERT_CUDA(cudaDeviceSynchronize());
  space.unmap(begin, space.pageBytes());
  EXPECT_DEATH(
      {
        (void)writePattern(begin, 4096, 1, streams_[0]);
        (void)cudaDeviceSynchronize();
      },
      "");
  space.release(begin, 2 * space.pageBytes());
}

// --- faults on demand: each in a process whose environment asks for it (CMakeLists.txt)

int asked(const char* name) {
  const char* const text = std::getenv(name);
  return text == nullptr ? 0 : std::atoi(text);
}

TEST_F(RulesTest, OneLaunchIsRefused) {
  const int refused = asked("EMULATED_GPU_FAIL_LAUNCH");
  if (refused == 0) GTEST_SKIP() << "EMULATED_GPU_FAIL_LAUNCH is not set";
  for (int i = 1; i <= refused + 2; ++i) {
    const cudaError_t wanted = i == refused ? cudaErrorLaunchOutOfResources : cudaSuccess;
    EXPECT_EQ(spinFor(1, streams_[0]), wanted) << i;
  }
  EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess) << "no sticky error";
}

// Nothing later in the order runs, no memory of the device can be read, pinned words can.
TEST_F(RulesTest, ATrapIsSticky) {
  const int trap = asked("EMULATED_GPU_TRAP");
  if (trap == 0) GTEST_SKIP() << "EMULATED_GPU_TRAP is not set";
  int* word = nullptr;
  int* block = nullptr;
  ASSERT_CUDA(cudaMallocHost(reinterpret_cast<void**>(&word), sizeof *word));
  ASSERT_CUDA(cudaMalloc(reinterpret_cast<void**>(&block), sizeof *block));
  *word = 7;
  for (int i = 1; i <= trap; ++i) (void)spinFor(1, streams_[0]);
  note(1, streams_[0]);
  EXPECT_EQ(cudaStreamSynchronize(streams_[0]), cudaErrorLaunchFailure);
  EXPECT_TRUE(noted_.empty());
  EXPECT_EQ(cudaGetLastError(), cudaErrorLaunchFailure);
  EXPECT_EQ(cudaGetLastError(), cudaErrorLaunchFailure) << "it stays";
  EXPECT_EQ(cudaMemcpy(word, block, sizeof *word, cudaMemcpyDeviceToHost), cudaErrorLaunchFailure);
  EXPECT_EQ(*word, 7);
}

TEST_F(RulesTest, OthersTakeMemoryAsTimeGoesOn) {
  const int every = asked("EMULATED_GPU_OTHERS_EVERY");
  if (every == 0) GTEST_SKIP() << "EMULATED_GPU_OTHERS_EVERY is not set";
  std::size_t before_bytes = 0, after_bytes = 0, total = 0;
  ASSERT_CUDA(cudaMemGetInfo(&before_bytes, &total));
  for (int i = 0; i < 3 * every; ++i) ASSERT_CUDA(spinFor(1, streams_[0]));
  ASSERT_CUDA(cudaMemGetInfo(&after_bytes, &total));
  EXPECT_EQ(before_bytes - after_bytes, 6 * kMiB);  // three pages
}

}  // namespace
}  // namespace emulated_gpu
