#include "cuda/cuda_allocator.hpp"

#include <c10/cuda/CUDAAllocatorConfig.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAGuard.h>
#include <pthread.h>

#include <algorithm>
#include <cstdlib>
#include <string>
#include <utility>

#include "base/said_line.hpp"
#include "out_of_memory/out_of_memory.hpp"

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

CudaAllocator::CudaAllocator(std::unique_ptr<DeviceSource> source, BudgetOf budget_of, Warn warn)
    : source_(std::move(source)), budget_of_(std::move(budget_of)), warn_(std::move(warn)) {
  fractions_.fill(torch_cuda::CUDAAllocatorConfig::per_process_memory_fraction());
  current.store(this);
  [[maybe_unused]] static const int watched =
      ::pthread_atfork(nullptr, nullptr, [] { in_child.store(true, std::memory_order_relaxed); });
}

CudaAllocator::~CudaAllocator() {
  for (auto& heap : heaps_) delete heap.load();
  CudaAllocator* expected = this;
  current.compare_exchange_strong(expected, nullptr);
}

// -----------------------------------------------------------------------------------------------
// devices

void CudaAllocator::init(int device_count) {
  TORCH_CHECK(device_count <= static_cast<int>(kMostDevices), "too many CUDA devices");
  int before = device_count_.load();
  while (before < device_count && !device_count_.compare_exchange_weak(before, device_count)) {
  }
}

void CudaAllocator::checkDevice(c10::DeviceIndex device) const {
  TORCH_CHECK(device >= 0 && device < device_count_.load(), "Invalid device argument ",
              static_cast<int>(device), ": did you call init?");
}

DeviceHeap* CudaAllocator::openHeap(c10::DeviceIndex device) const noexcept {
  return heaps_[static_cast<std::size_t>(device)].load(std::memory_order_acquire);
}

DeviceHeap& CudaAllocator::heap(c10::DeviceIndex device) {
  checkDevice(device);
  if (DeviceHeap* const open = openHeap(device)) return *open;
  const std::lock_guard lock(mutex_);
  if (DeviceHeap* const open = openHeap(device)) return *open;
  auto opened = std::make_unique<DeviceHeap>(device, source_->open(device), settings_, observers_);
  opened->budget().setBudget(budget_of_(*opened));
  opened->budget().setFraction(fractions_[static_cast<std::size_t>(device)]);
  if (may_go_over_) opened->budget().goOver();
  opened->ledger().setHistory(most_entries_, /*clear=*/false);
  for (const auto& tracker : trackers_) opened->ledger().addTracker(tracker);
  DeviceHeap* const ready = opened.release();
  heaps_[static_cast<std::size_t>(device)].store(ready, std::memory_order_release);
  return *ready;
}

DeviceHeap* CudaAllocator::heapOf(const void* block) const noexcept {
  DeviceHeap* found = nullptr;
  forEachOpen([&](DeviceHeap& heap) {
    if (heap.owns(block)) found = &heap;
  });
  return found;
}

std::optional<allocator::Statistics> CudaAllocator::mostExceeded() const {
  std::optional<allocator::Statistics> most;
  forEachOpen([&](DeviceHeap& heap) {
    const allocator::Statistics now = heap.memory().statistics();
    if (now.budget_violations == 0) return;
    if (!most || now.mapped_peak_bytes > most->mapped_peak_bytes) most = now;
  });
  return most;
}

void CudaAllocator::letGoOver() {
  const std::lock_guard lock(mutex_);
  may_go_over_ = true;
  forEachOpen([](DeviceHeap& heap) { heap.budget().goOver(); });
}

void CudaAllocator::boundAllBut(c10::DeviceIndex device) {
  const std::lock_guard lock(mutex_);
  may_go_over_ = false;
  const DeviceHeap* const trained = openHeap(device);
  forEachOpen([trained](DeviceHeap& heap) {
    if (&heap != trained) heap.memory().limitOverrun(0);
  });
}

void CudaAllocator::measureMargins() {
  forEachOpen([](DeviceHeap& heap) { heap.budget().measureMargin(); });
}

// -----------------------------------------------------------------------------------------------
// allocate and free

void* CudaAllocator::allocateOn(c10::DeviceIndex device, std::size_t bytes, cudaStream_t stream) {
  TORCH_CHECK_WITH(OutOfMemoryError, bytes < kOneExabyte,
                   "CUDA out of memory. Tried to allocate more than 1EB memory.");
  if (bytes == 0) return nullptr;
  void* block = nullptr;
  if (foreign_.any())
    block = foreign_.allocate(heap(device).pools().taker(stream), bytes, device, stream);
  if (block == nullptr) block = heap(device).allocate(bytes, stream);
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
  const c10::DeviceIndex device = source_->currentDevice();
  void* const block = allocateOn(device, bytes, source_->currentStream(device));
  return {block, block, &deleteBlock, c10::Device(c10::kCUDA, device)};
}

void* CudaAllocator::raw_alloc(std::size_t bytes) {
  const c10::DeviceIndex device = source_->currentDevice();
  return allocateOn(device, bytes, source_->currentStream(device));
}

void* CudaAllocator::raw_alloc_with_stream(std::size_t bytes, cudaStream_t stream) {
  return allocateOn(source_->currentDevice(), bytes, stream);
}

void CudaAllocator::raw_delete(void* block) {
  if (block == nullptr || foreign_.free(block)) return;
  DeviceHeap* const on = heapOf(block);
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
  DeviceHeap* const on = heapOf(block.get());
  TORCH_CHECK(on != nullptr, "invalid device pointer: ", block.get());
  on->recordStream(block.get(), stream.stream(), heap(stream.device_index()));
}

void CudaAllocator::emptyCache(c10::MempoolId_t) {
  // Pools in use keep their pages, whichever pool is named; those that are not have no more than
  // cache.
  forEachOpen([](DeviceHeap& heap) { heap.releaseCached(); });
}

// -----------------------------------------------------------------------------------------------
// budget and statistics

double CudaAllocator::getMemoryFraction(c10::DeviceIndex device) {
  checkDevice(device);
  const std::lock_guard lock(mutex_);
  return fractions_[static_cast<std::size_t>(device)];
}

void CudaAllocator::setMemoryFraction(double fraction, c10::DeviceIndex device) {
  checkDevice(device);
  TORCH_CHECK(0 <= fraction && fraction <= 1, "invalid fraction:", fraction,
              ". Please set within [0, 1].");
  {
    const std::lock_guard lock(mutex_);
    fractions_[static_cast<std::size_t>(device)] = fraction;
  }
  DeviceHeap* const open = openHeap(device);
  if (open == nullptr) return;
  const allocator::BudgetTracker& tracker = open->memory().budgetTracker();
  const Bytes before = tracker.budgetBytes();
  open->budget().setFraction(fraction);
  if (warn_ != nullptr && tracker.budgetBytes() < before && tracker.isOverBudget()) {
    warn_(
        "GPU " + std::to_string(device) + ": " +
        describeLoweredBudget(tracker.budgetBytes(), tracker.marginBytes(), tracker.mappedBytes()));
  }
}

DeviceStatistics::Torch CudaAllocator::getDeviceStats(c10::DeviceIndex device) {
  checkDevice(device);
  DeviceHeap* const open = openHeap(device);
  return open == nullptr ? DeviceStatistics::Torch{} : open->statistics();
}

void CudaAllocator::resetAccumulatedStats(c10::DeviceIndex device) {
  checkDevice(device);
  if (DeviceHeap* const open = openHeap(device)) open->ledger().resetAccumulated();
}

void CudaAllocator::resetPeakStats(c10::DeviceIndex device) {
  checkDevice(device);
  if (DeviceHeap* const open = openHeap(device)) open->resetPeaks();
}

// cuDNN asks how large a workspace may be, and chooses a convolution's algorithm by it, whose bits
// differ. Asked without a bound, the answer is that of an idle device: neither the budget nor what
// happens to be free has a say. A workspace that does not fit is refused, as any block is.
void CudaAllocator::cacheInfo(c10::DeviceIndex device, std::size_t* largest) {
  DeviceHeap& on = heap(device);
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
  DeviceHeap* const on = heapOf(block);
  const auto range = on == nullptr ? std::nullopt : on->ledger().rangeAround(block);
  TORCH_CHECK(range.has_value(), "invalid device pointer: ", block);
  if (bytes != nullptr) *bytes = static_cast<std::size_t>(range->bytes);
  return range->begin;
}

std::vector<torch_cuda::StreamSegmentSize> CudaAllocator::getExpandableSegmentSizes(
    c10::DeviceIndex device) {
  checkDevice(device);
  DeviceHeap* const open = openHeap(device);
  if (open == nullptr) return {};
  return open->ledger().segmentSizes();
}

}  // namespace ebbtide::plugin::cuda
