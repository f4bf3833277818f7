// TorchBlocks: the blocks that torch has on all devices: who gives one, and who takes it back.
//
//   request ─► a memory pool's own allocator, else the device's heap ─► filled, if asked for ─►
//   block
//
// Torch's deleters know the block alone, so one of these is the installed one.
//
// Thread rule: any thread.
#pragma once

#include <c10/core/Allocator.h>
#include <c10/cuda/CUDAStream.h>

#include <cstddef>

#include "base/fill_pattern.hpp"
#include "cuda/device_heaps.hpp"
#include "cuda/foreign_pools.hpp"
#include "cuda/shared_pages.hpp"

namespace ebbtide::plugin::cuda {

class TorchBlocks {
 public:
  // All outlive it. One at a time: blocks are deleted through the one that was made last.
  TorchBlocks(DeviceHeaps& heaps, ForeignPools& foreign, SharedPages& shared);
  ~TorchBlocks();
  TorchBlocks(const TorchBlocks&) = delete;
  TorchBlocks& operator=(const TorchBlocks&) = delete;

  static TorchBlocks* installed() noexcept;  // nullptr: none lives
  // Asked before a tensor gets memory; throws where it is to get none.
  static void refuseBy(void (*refuse)()) noexcept;
  // Of a tensor's block. In a child of fork() it does nothing.
  static c10::DeleterFnPtr deleter() noexcept { return &deleteBlock; }
  // Fills what this thread allocates from now on, on the allocation's stream. Returns the pattern
  // before.
  static FillPattern fillNew(FillPattern pattern) noexcept;

  DeviceHeaps& heaps() noexcept { return heaps_; }

  // On the current device; nullptr for no bytes. They throw c10::Error, c10::OutOfMemoryError too.
  c10::DataPtr allocate(std::size_t bytes);  // for a tensor, on the current stream
  void* take(std::size_t bytes);             // on the current stream
  void* take(std::size_t bytes, cudaStream_t stream);
  void free(void* block);  // throws c10::Error for what is no live block
  // Nothing happens to memory of another process or library.
  void recordStream(const c10::DataPtr& block, c10::cuda::CUDAStream stream);
  // What the block is a part of for those who map memory. Throws c10::Error as free() does.
  HeapLedger::Range rangeAround(void* block) const;

 private:
  void* takeOn(c10::DeviceIndex device, std::size_t bytes, cudaStream_t stream);
  DeviceHeap& heapOf(const void* block) const;
  static void deleteBlock(void* block);

  DeviceHeaps& heaps_;
  ForeignPools& foreign_;
  SharedPages& shared_;
};

}  // namespace ebbtide::plugin::cuda
