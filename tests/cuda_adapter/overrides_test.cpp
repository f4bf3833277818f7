// Torch's allocator has functions whose default throws, and later torches have more. The
// chain of adapters must override each; any adapter may.
#include <gtest/gtest.h>

#include <type_traits>

#include "cuda/cuda_allocator.hpp"

namespace ebbtide::plugin::cuda::test {
namespace {

// Of a function that CudaAllocator has: is it the one that torch's own class declares?
template <typename Class, typename Function>
constexpr bool isTorchs(Function Class::*) {
  return std::is_base_of_v<Class, torch_cuda::CUDAAllocator>;
}

TEST(OverridesTest, NoDefaultThatThrowsIsLeft) {
  EXPECT_FALSE(isTorchs(&CudaAllocator::getPoolUseCount));
  EXPECT_FALSE(isTorchs(&CudaAllocator::createOrIncrefPool));
  EXPECT_FALSE(isTorchs(&CudaAllocator::setUseOnOOM));
  EXPECT_FALSE(isTorchs(&CudaAllocator::setNoSplit));
  EXPECT_FALSE(isTorchs(&CudaAllocator::checkPoolLiveAllocations));
  EXPECT_FALSE(isTorchs(&CudaAllocator::isHistoryEnabled));
}

// Of torches later than 2.11.
TEST(OverridesTest, WhatLaterTorchesAskForIsThere) {
  EXPECT_FALSE(isTorchs(&CudaAllocator::markCaptureBegin));
  EXPECT_FALSE(isTorchs(&CudaAllocator::markCaptureEnd));
  EXPECT_FALSE(isTorchs(&CudaAllocator::attachOomRejectionObserver));
  EXPECT_FALSE(isTorchs(&CudaAllocator::supportsUserMetadata));
}

// The device's memory as the driver tells it: torch's default answers.
TEST(OverridesTest, OnlyTheMemoryOfADeviceIsLeftToTorch) {
  EXPECT_TRUE(isTorchs(&CudaAllocator::getMemoryInfo));
}

}  // namespace
}  // namespace ebbtide::plugin::cuda::test
