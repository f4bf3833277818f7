#include "cuda/cuda_allocator.hpp"

#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAGuard.h>
#include <pthread.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <string>
#include <utility>

#include "base/said_line.hpp"

namespace ebbtide::plugin::cuda {
namespace {

std::atomic<CudaAllocator*> current{nullptr};
std::atomic<void (*)()> refusal{nullptr};

// A child of fork() has no CUDA, and another thread may have held a lock: what it lets go of is its
// parent's, and stays as it is.
std::atomic<bool> in_child{false};

// torch's own bound: beyond it sizes are the result of an overflow.
constexpr std::size_t kOneExabyte = std::size_t{1} << 60;

thread_local FillPattern fill_pattern;

}  // namespace

CudaAllocator::CudaAllocator(std::unique_ptr<DeviceSource> source, DeviceHeaps::BudgetOf budget_of,
                             DeviceHeaps::Warn warn)
    : heaps_(std::move(source), std::move(budget_of), std::move(warn)) {
  current.store(this);
  [[maybe_unused]] static const int watched =
      ::pthread_atfork(nullptr, nullptr, [] { in_child.store(true, std::memory_order_relaxed); });
}

CudaAllocator::~CudaAllocator() {
  CudaAllocator* expected = this;
  current.compare_exchange_strong(expected, nullptr);
}

// -----------------------------------------------------------------------------------------------
// allocate and free

void* CudaAllocator::allocateOn(c10::DeviceIndex device, std::size_t bytes, cudaStream_t stream) {
  TORCH_CHECK_WITH(OutOfMemoryError, bytes < kOneExabyte,
                   "CUDA out of memory. Tried to allocate more than 1EB memory.");
  if (bytes == 0) return nullptr;
  void* block = nullptr;
  if (foreign_.any())
    block = foreign_.allocate(heaps_.heap(device).pools().taker(stream), bytes, device, stream);
  if (block == nullptr) block = heaps_.heap(device).allocate(bytes, stream);
  if (fill_pattern) {
    const cudaError_t filled = cudaMemsetAsync(block, *fill_pattern, bytes, stream);
    if (filled != cudaSuccess) raw_delete(block);
    C10_CUDA_CHECK(filled);
  }
  return block;
}

FillPattern CudaAllocator::fillNew(FillPattern pattern) noexcept {
  return std::exchange(fill_pattern, pattern);
}

CudaAllocator* CudaAllocator::installed() noexcept {
  return current.load();
}

void CudaAllocator::refuseBy(void (*refuse)()) noexcept {
  refusal.store(refuse);
}

c10::DataPtr CudaAllocator::allocate(std::size_t bytes) {
  if (const auto refuse = refusal.load(std::memory_order_relaxed)) refuse();
  const c10::DeviceIndex device = heaps_.source().currentDevice();
  void* const block = allocateOn(device, bytes, heaps_.source().currentStream(device));
  return {block, block, &deleteBlock, c10::Device(c10::kCUDA, device)};
}

void* CudaAllocator::raw_alloc(std::size_t bytes) {
  const c10::DeviceIndex device = heaps_.source().currentDevice();
  return allocateOn(device, bytes, heaps_.source().currentStream(device));
}

void* CudaAllocator::raw_alloc_with_stream(std::size_t bytes, cudaStream_t stream) {
  return allocateOn(heaps_.source().currentDevice(), bytes, stream);
}

void CudaAllocator::raw_delete(void* block) {
  if (block == nullptr || foreign_.free(block)) return;
  DeviceHeap* const on = heaps_.heapOf(block);
  TORCH_CHECK(on != nullptr, "invalid device pointer: ", block);
  shared_.onFreed(block);
  on->free(block);
}

// In a destructor of torch's, from which nothing can be thrown.
void CudaAllocator::deleteBlock(void* block) {
  CudaAllocator* const allocator = current.load();
  if (allocator == nullptr || block == nullptr) return;
  if (in_child.load(std::memory_order_relaxed)) return;
  try {
    allocator->raw_delete(block);
  } catch (const std::exception& error) {
    sayLine(std::string("ebbtide: ") + error.what());
    std::abort();
  }
}

c10::DeleterFnPtr CudaAllocator::raw_deleter() const {
  return &deleteBlock;
}

void CudaAllocator::copy_data(void* target, const void* source, std::size_t bytes) const {
  C10_CUDA_CHECK(cudaMemcpy(target, source, bytes, cudaMemcpyDeviceToDevice));
}

void CudaAllocator::recordStream(const c10::DataPtr& block, c10::cuda::CUDAStream stream) {
  // Memory of another process or library is not ours to keep.
  if (!block.get() || block.get_deleter() != &deleteBlock) return;
  if (foreign_.recordStream(block.get(), stream.stream(), stream.device_index())) return;
  DeviceHeap* const on = heaps_.heapOf(block.get());
  TORCH_CHECK(on != nullptr, "invalid device pointer: ", block.get());
  on->recordStream(block.get(), stream.stream(), heaps_.heap(stream.device_index()));
}

void CudaAllocator::emptyCache(c10::MempoolId_t) {
  // Pools in use keep their pages, whichever pool is named; those that are not have no more than
  // cache.
  heaps_.forEachOpen([](DeviceHeap& heap) { heap.releaseCached(); });
}

// -----------------------------------------------------------------------------------------------
// statistics

DeviceStatistics::Torch CudaAllocator::getDeviceStats(c10::DeviceIndex device) {
  DeviceHeap* const open = heaps_.openHeap(device);
  return open == nullptr ? DeviceStatistics::Torch{} : open->statistics();
}

void CudaAllocator::resetAccumulatedStats(c10::DeviceIndex device) {
  if (DeviceHeap* const open = heaps_.openHeap(device)) open->ledger().resetAccumulated();
}

void CudaAllocator::resetPeakStats(c10::DeviceIndex device) {
  if (DeviceHeap* const open = heaps_.openHeap(device)) open->resetPeaks();
}

// cuDNN asks how large a workspace may be, and chooses a convolution's algorithm by it, whose bits
// differ. Asked without a bound, the answer is that of an idle device: neither the budget nor what
// happens to be free has a say. A workspace that does not fit is refused, as any block is.
void CudaAllocator::cacheInfo(c10::DeviceIndex device, std::size_t* largest) {
  DeviceHeap& on = heaps_.heap(device);
  if (*largest == 0) {
    *largest = static_cast<std::size_t>(on.budget().totalBytes());
    return;
  }
  *largest = std::max(*largest, static_cast<std::size_t>(on.largestCachedBytes()));
}

void* CudaAllocator::getBaseAllocation(void* block, std::size_t* bytes) {
  if (const std::size_t foreign = foreign_.blockBytes(block)) {
    if (bytes != nullptr) *bytes = foreign;
    return block;
  }
  DeviceHeap* const on = heaps_.heapOf(block);
  const auto range = on == nullptr ? std::nullopt : on->ledger().rangeAround(block);
  TORCH_CHECK(range.has_value(), "invalid device pointer: ", block);
  if (bytes != nullptr) *bytes = static_cast<std::size_t>(range->bytes);
  return range->begin;
}

std::vector<torch_cuda::StreamSegmentSize> CudaAllocator::getExpandableSegmentSizes(
    c10::DeviceIndex device) {
  DeviceHeap* const open = heaps_.openHeap(device);
  if (open == nullptr) return {};
  return open->ledger().segmentSizes();
}

}  // namespace ebbtide::plugin::cuda
