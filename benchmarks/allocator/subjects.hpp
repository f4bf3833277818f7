// What is measured: each a class with allocate(bytes), free(block) and beginStep(step).
#pragma once

#include <cstdlib>
#include <memory>
#include <utility>

#include "allocation_trace.hpp"
#include "base/thread_scopes.hpp"
#include "ebbtide/allocator/device_memory.hpp"
#include "ebbtide/allocator/host_address_space.hpp"
#include "ebbtide/allocator/placed_sequence.hpp"
#include "memory/later_blocks.hpp"
#ifdef EBBTIDE_BENCHMARK_TORCH
#include "torch_cpu_memory.hpp"
#endif

namespace ebbtide::benchmarks {

inline std::unique_ptr<allocator::DeviceMemory> makeHostMemory() {
  return std::make_unique<allocator::DeviceMemory>(allocator::makeHostAddressSpace(),
                                                   allocator::makeHostEvents(),
                                                   allocator::DeviceMemory::Options{});
}

// Nothing: what the replay itself takes.
class NoMemory {
 public:
  explicit NoMemory(const ReplayLoop&) {}
  void* allocate(Bytes) noexcept { return this; }
  void free(void*) noexcept {}
  void beginStep(std::size_t) noexcept {}
};

// malloc and free of whatever library has them in this process.
class Malloc {
 public:
  explicit Malloc(const ReplayLoop&) {}
  void* allocate(Bytes bytes) noexcept { return std::malloc(static_cast<std::size_t>(bytes)); }
  void free(void* block) noexcept { std::free(block); }
  void beginStep(std::size_t) noexcept {}
};

#ifdef EBBTIDE_BENCHMARK_TORCH
class TorchCpu {
 public:
  explicit TorchCpu(const ReplayLoop&) {}
  void* allocate(Bytes bytes) noexcept { return torchCpuAllocate(bytes); }
  void free(void* block) noexcept { torchCpuFree(block); }
  void beginStep(std::size_t) noexcept {}
};
#endif

class Fallback {
 public:
  explicit Fallback(const ReplayLoop&) {}
  void* allocate(Bytes bytes) noexcept {
    return memory_->allocate(static_cast<std::size_t>(bytes), allocator::Stream::kDefault);
  }
  void free(void* block) noexcept { memory_->deallocate(block); }
  void beginStep(std::size_t) noexcept {}
  allocator::DeviceMemory& memory() noexcept { return *memory_; }

 private:
  const std::unique_ptr<allocator::DeviceMemory> memory_ = makeHostMemory();
};

// With the watcher that the plugin has once a budget is judged. It passes over the blocks of an op
// that a step records.
class Watched : public Fallback {
 public:
  explicit Watched(const ReplayLoop& loop) : Fallback(loop) { memory().setWatcher(&later_); }
  ~Watched() { memory().setWatcher(nullptr); }
  Watched(const Watched&) = delete;
  Watched& operator=(const Watched&) = delete;

 private:
  plugin::LaterBlocks later_;
};

// As in an op that no step records: the watcher notes blocks of 64 KiB and more, under its lock.
class WatchedOutside : public Watched {
 public:
  explicit WatchedOutside(const ReplayLoop& loop) : Watched(loop) {
    plugin::unrecordedOp() = {this, "aten::clone"};
  }
  ~WatchedOutside() { plugin::unrecordedOp() = {}; }
};

// Each step takes the places of this one.
class Planned : public Fallback {
 public:
  explicit Planned(const ReplayLoop& loop) : Fallback(loop) {}
  // Before that, as the first step of a program: nothing is foreseen.
  void follow(std::shared_ptr<const allocator::PlacedSequence> places) noexcept {
    places_ = std::move(places);
  }
  void beginStep(std::size_t) noexcept {
    if (places_ == nullptr) return;
    memory().placed().beginStep(allocator::Stream::kDefault, places_, /*this_thread_only=*/true);
  }

 private:
  std::shared_ptr<const allocator::PlacedSequence> places_;
};

}  // namespace ebbtide::benchmarks
