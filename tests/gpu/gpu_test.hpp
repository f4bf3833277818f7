// Fixture of the tests on a real GPU: skips where there is none.
#pragma once

#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <memory>

#include "ebbtide/allocator/cuda/address_space.hpp"
#include "ebbtide/allocator/cuda/stream_events.hpp"
#include "ebbtide/allocator/cuda/stream_names.hpp"
#include "ebbtide/allocator/device_memory.hpp"
#include "patterns.h"

namespace ebbtide::allocator::cuda::test {

inline constexpr Bytes kKiB = 1024;
inline constexpr Bytes kMiB = 1024 * kKiB;

#define ASSERT_CUDA(expression) ASSERT_EQ(expression, cudaSuccess)

class GpuTest : public ::testing::Test {
 protected:
  void SetUp() override {
    static const DriverResult driver = loadDriver();
    if (!driver.problem.empty()) GTEST_SKIP() << "no GPU: " << driver.problem;
    const DeviceResult result = openDevice(driver.driver, 0);
    if (!result.device) GTEST_SKIP() << "no GPU: " << result.problem;
    device_ = *result.device;
    ASSERT_CUDA(cudaSetDevice(0));
    for (cudaStream_t& stream : streams_) {
      ASSERT_CUDA(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    }
    ASSERT_CUDA(cudaMalloc(reinterpret_cast<void**>(&wrong_), sizeof *wrong_));
    // Once each, so that what they take of the device when they are loaded is in use by now.
    ASSERT_CUDA(writePattern(wrong_, sizeof *wrong_, 1, streams_[0]));
    ASSERT_CUDA(checkPattern(wrong_, 0, 1, wrong_, streams_[0]));
    ASSERT_CUDA(spinFor(1, streams_[0]));
    ASSERT_CUDA(cudaDeviceSynchronize());
    ASSERT_CUDA(cudaMemset(wrong_, 0, sizeof *wrong_));
  }
  void TearDown() override {
    if (wrong_ == nullptr) return;
    EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);
    memory_.reset();
    cudaFree(wrong_);
    for (const cudaStream_t stream : streams_) cudaStreamDestroy(stream);
  }

  void makeMemory(Bytes budget) {
    memory_ = std::make_unique<DeviceMemory>(
        std::make_unique<CudaAddressSpace>(device_), std::make_unique<CudaStreamEvents>(device_),
        DeviceMemory::Options{.alignment_bytes = 512, .reserve_bytes = Bytes{16} << 30});
    memory_->limitOverrun(0);
    memory_->setBudget(budget);
  }
  // Words that were spoilt, once all streams are done.
  unsigned long long wrongWords() {
    EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);
    unsigned long long wrong = 0;
    EXPECT_EQ(cudaMemcpy(&wrong, wrong_, sizeof wrong, cudaMemcpyDeviceToHost), cudaSuccess);
    return wrong;
  }

  Device device_;
  cudaStream_t streams_[3] = {};
  unsigned long long* wrong_ = nullptr;  // on the device
  std::unique_ptr<DeviceMemory> memory_;
};

}  // namespace ebbtide::allocator::cuda::test
