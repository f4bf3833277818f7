#include "cuda/torch_blocks.hpp"

#include <c10/cuda/CUDAException.h>
#include <pthread.h>

#include <atomic>
#include <cstdlib>
#include <optional>
#include <string>
#include <utility>

#include "base/said_line.hpp"

namespace ebbtide::plugin::cuda {
namespace {

std::atomic<TorchBlocks*> current{nullptr};
std::atomic<void (*)()> refusal{nullptr};

// A child of fork() has no CUDA, and another thread may have held a lock at the fork. Blocks that
// the child deletes are its parent's, and stay as they are.
std::atomic<bool> in_child{false};

// torch's own bound: beyond it sizes are the result of an overflow.
constexpr std::size_t kOneExabyte = std::size_t{1} << 60;

thread_local FillPattern fill_pattern;

}  // namespace

TorchBlocks::TorchBlocks(DeviceHeaps& heaps, ForeignPools& foreign, SharedPages& shared)
    : heaps_(heaps), foreign_(foreign), shared_(shared) {
  current.store(this);
  [[maybe_unused]] static const int watched =
      ::pthread_atfork(nullptr, nullptr, [] { in_child.store(true, std::memory_order_relaxed); });
}

TorchBlocks::~TorchBlocks() {
  TorchBlocks* expected = this;
  current.compare_exchange_strong(expected, nullptr);
}

TorchBlocks* TorchBlocks::installed() noexcept {
  return current.load();
}

void TorchBlocks::refuseBy(void (*refuse)()) noexcept {
  refusal.store(refuse);
}

FillPattern TorchBlocks::fillNew(FillPattern pattern) noexcept {
  return std::exchange(fill_pattern, pattern);
}

void* TorchBlocks::takeOn(c10::DeviceIndex device, std::size_t bytes, cudaStream_t stream) {
  TORCH_CHECK_WITH(OutOfMemoryError, bytes < kOneExabyte,
                   "CUDA out of memory. Tried to allocate more than 1EB memory.");
  if (bytes == 0) return nullptr;
  void* block = nullptr;
  if (foreign_.any())
    block = foreign_.allocate(heaps_.heap(device).pools().taker(stream), bytes, device, stream);
  if (block == nullptr) block = heaps_.heap(device).allocate(bytes, stream);
  if (fill_pattern) {
    const cudaError_t filled = cudaMemsetAsync(block, *fill_pattern, bytes, stream);
    if (filled != cudaSuccess) free(block);
    C10_CUDA_CHECK(filled);
  }
  return block;
}

c10::DataPtr TorchBlocks::allocate(std::size_t bytes) {
  if (const auto refuse = refusal.load(std::memory_order_relaxed)) refuse();
  const c10::DeviceIndex device = heaps_.source().currentDevice();
  void* const block = takeOn(device, bytes, heaps_.source().currentStream(device));
  return {block, block, &deleteBlock, c10::Device(c10::kCUDA, device)};
}

void* TorchBlocks::take(std::size_t bytes) {
  const c10::DeviceIndex device = heaps_.source().currentDevice();
  return takeOn(device, bytes, heaps_.source().currentStream(device));
}

void* TorchBlocks::take(std::size_t bytes, cudaStream_t stream) {
  return takeOn(heaps_.source().currentDevice(), bytes, stream);
}

DeviceHeap& TorchBlocks::heapOf(const void* block) const {
  DeviceHeap* const heap = heaps_.heapOf(block);
  TORCH_CHECK(heap != nullptr, "invalid device pointer: ", block);
  return *heap;
}

void TorchBlocks::free(void* block) {
  if (block == nullptr || foreign_.free(block)) return;
  DeviceHeap& on = heapOf(block);
  shared_.onFreed(block);
  on.free(block);
}

// In a destructor of torch's, from which nothing can be thrown.
void TorchBlocks::deleteBlock(void* block) {
  TorchBlocks* const blocks = current.load();
  if (blocks == nullptr || block == nullptr) return;
  if (in_child.load(std::memory_order_relaxed)) return;
  try {
    blocks->free(block);
  } catch (const std::exception& error) {
    sayLine(std::string("ebbtide: ") + error.what());
    std::abort();
  }
}

void TorchBlocks::recordStream(const c10::DataPtr& block, c10::cuda::CUDAStream stream) {
  if (!block.get() || block.get_deleter() != &deleteBlock) return;
  if (foreign_.recordStream(block.get(), stream.stream(), stream.device_index())) return;
  heapOf(block.get())
      .recordStream(block.get(), stream.stream(), heaps_.heap(stream.device_index()));
}

HeapLedger::Range TorchBlocks::rangeAround(void* block) const {
  if (const std::size_t bytes = foreign_.blockBytes(block)) {
    return {block, static_cast<Bytes>(bytes)};
  }
  const auto range = heapOf(block).ledger().rangeAround(block);
  TORCH_CHECK(range.has_value(), "invalid device pointer: ", block);
  return *range;
}

}  // namespace ebbtide::plugin::cuda
