// DeviceHeaps: the heaps of the process's devices, and what they share.
//
// A device is opened when memory of it is first asked for. What is said of one before (a fraction,
// a tracker) waits until then.
//
// Thread rule: any thread. Its lock is held while a device is opened, and taken before any heap's.
#pragma once

#include <array>
#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/guard.hpp"
#include "cuda/device_heap.hpp"
#include "cuda/device_source.hpp"
#include "cuda/history.hpp"
#include "cuda/out_of_memory_observers.hpp"

namespace ebbtide::plugin::cuda {

class DeviceHeaps {
 public:
  using BudgetOf = std::function<Bytes(const DeviceHeap&)>;  // kUnlimited for none
  using Warn = std::function<void(const std::string&)>;      // one line, to be said

  // Throws c10::Error where PYTORCH_CUDA_ALLOC_CONF is none.
  DeviceHeaps(std::unique_ptr<DeviceSource> source, BudgetOf budget_of, Warn warn);
  ~DeviceHeaps();
  DeviceHeaps(const DeviceHeaps&) = delete;
  DeviceHeaps& operator=(const DeviceHeaps&) = delete;

  // So many devices at least. Throws c10::Error where these are more than torch's indices reach.
  void init(int device_count);
  int count() const noexcept { return device_count_.load(); }
  DeviceSource& source() noexcept { return *source_; }
  HistorySettings& historySettings() noexcept { return settings_; }
  OutOfMemoryObservers& outOfMemoryObservers() noexcept { return observers_; }

  // nullptr: not open. Throws c10::Error for what is no device.
  DeviceHeap* openHeap(c10::DeviceIndex device) const;
  DeviceHeap& heap(c10::DeviceIndex device);             // opens it; throws c10::Error
  DeviceHeap* heapOf(const void* block) const noexcept;  // nullptr: no address of ours
  template <typename Visit>
  void forEachOpen(Visit&& visit) const;

  // Of the whole device, as torch.cuda.set_per_process_memory_fraction() has it; throw c10::Error.
  double fraction(c10::DeviceIndex device) const;
  void setFraction(c10::DeviceIndex device, double fraction);
  // For the start of a step: what others hold of the devices that are open is measured again.
  void measureMargins();
  // Of the device whose budget was exceeded, of several the one with most; nothing: none was.
  std::optional<allocator::Statistics> mostExceeded() const;
  // Budgets will be judged; until then they may be exceeded.
  void letGoOver();
  // This device is trained on, and judged; nobody judges the others.
  void boundAllBut(c10::DeviceIndex device);

  void setHistory(std::size_t most_entries, bool clear);
  void addTracker(const c10::CachingDeviceAllocator::AllocatorTraceTracker& tracker);

 private:
  static constexpr std::size_t kMostDevices = 128;
  using Held = Guard<DeviceHeaps>::Held;

  struct Told {  // of all devices, the ones that are not open yet too
    bool may_go_over = false;
    std::array<double, kMostDevices> fractions{};
    std::size_t most_entries = 1;
    std::vector<c10::CachingDeviceAllocator::AllocatorTraceTracker> trackers;
  };

  void checkDevice(c10::DeviceIndex device) const;
  DeviceHeap* at(int device) const noexcept {
    return heaps_[static_cast<std::size_t>(device)].load(std::memory_order_acquire);
  }
  DeviceHeap& open(const Held& held, c10::DeviceIndex device);

  const std::unique_ptr<DeviceSource> source_;
  const BudgetOf budget_of_;
  const Warn warn_;
  HistorySettings settings_;
  OutOfMemoryObservers observers_;
  std::atomic<int> device_count_{0};
  std::array<std::atomic<DeviceHeap*>, kMostDevices> heaps_{};  // owned

  mutable Guard<DeviceHeaps> guard_;  // of what was told, and of the opening of devices
  Guarded<Told, DeviceHeaps> told_;
};

template <typename Visit>
void DeviceHeaps::forEachOpen(Visit&& visit) const {
  for (int device = 0; device < device_count_.load(); ++device) {
    if (DeviceHeap* const open = at(device)) visit(*open);
  }
}

}  // namespace ebbtide::plugin::cuda
