#include "cuda/device_heaps.hpp"

#include <c10/cuda/CUDAAllocatorConfig.h>
#include <c10/util/Exception.h>

#include "out_of_memory/out_of_memory.hpp"

namespace ebbtide::plugin::cuda {

using c10::cuda::CUDACachingAllocator::CUDAAllocatorConfig;

DeviceHeaps::DeviceHeaps(std::unique_ptr<DeviceSource> source, BudgetOf budget_of, Warn warn)
    : source_(std::move(source)), budget_of_(std::move(budget_of)), warn_(std::move(warn)) {
  const auto held = guard_.hold();
  told_.with(held).fractions.fill(CUDAAllocatorConfig::per_process_memory_fraction());
}

DeviceHeaps::~DeviceHeaps() {
  for (auto& heap : heaps_) delete heap.load();
}

// -----------------------------------------------------------------------------------------------
// devices

void DeviceHeaps::init(int device_count) {
  TORCH_CHECK(device_count <= static_cast<int>(kMostDevices), "too many CUDA devices");
  int before = device_count_.load();
  while (before < device_count && !device_count_.compare_exchange_weak(before, device_count)) {
  }
}

void DeviceHeaps::checkDevice(c10::DeviceIndex device) const {
  TORCH_CHECK(device >= 0 && device < device_count_.load(), "Invalid device argument ",
              static_cast<int>(device), ": did you call init?");
}

DeviceHeap* DeviceHeaps::openHeap(c10::DeviceIndex device) const {
  checkDevice(device);
  return at(device);
}

DeviceHeap& DeviceHeaps::heap(c10::DeviceIndex device) {
  if (DeviceHeap* const open = openHeap(device)) return *open;
  const auto held = guard_.hold();
  if (DeviceHeap* const open = at(device)) return *open;
  return open(held, device);
}

DeviceHeap& DeviceHeaps::open(const Held& held, c10::DeviceIndex device) {
  const Told& told = told_.with(held);
  auto opened = std::make_unique<DeviceHeap>(device, source_->open(device), settings_, observers_);
  opened->budget().setBudget(budget_of_(*opened));
  opened->budget().setFraction(told.fractions[static_cast<std::size_t>(device)]);
  if (told.may_go_over) opened->budget().goOver();
  opened->ledger().setHistory(told.most_entries, /*clear=*/false);
  for (const auto& tracker : told.trackers) opened->ledger().addTracker(tracker);
  DeviceHeap* const ready = opened.release();
  heaps_[static_cast<std::size_t>(device)].store(ready, std::memory_order_release);
  return *ready;
}

DeviceHeap* DeviceHeaps::heapOf(const void* block) const noexcept {
  DeviceHeap* found = nullptr;
  forEachOpen([&](DeviceHeap& heap) {
    if (heap.owns(block)) found = &heap;
  });
  return found;
}

// -----------------------------------------------------------------------------------------------
// budgets

double DeviceHeaps::fraction(c10::DeviceIndex device) const {
  checkDevice(device);
  const auto held = guard_.hold();
  return told_.with(held).fractions[static_cast<std::size_t>(device)];
}

void DeviceHeaps::setFraction(c10::DeviceIndex device, double fraction) {
  checkDevice(device);
  TORCH_CHECK(0 <= fraction && fraction <= 1, "invalid fraction:", fraction,
              ". Please set within [0, 1].");
  {
    const auto held = guard_.hold();
    told_.with(held).fractions[static_cast<std::size_t>(device)] = fraction;
  }
  DeviceHeap* const open = at(device);
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

void DeviceHeaps::measureMargins() {
  forEachOpen([](DeviceHeap& heap) { heap.budget().measureMargin(); });
}

std::optional<allocator::Statistics> DeviceHeaps::mostExceeded() const {
  std::optional<allocator::Statistics> most;
  forEachOpen([&](DeviceHeap& heap) {
    const allocator::Statistics now = heap.memory().statistics();
    if (now.budget_violations == 0) return;
    if (!most || now.mapped_peak_bytes > most->mapped_peak_bytes) most = now;
  });
  return most;
}

void DeviceHeaps::letGoOver() {
  const auto held = guard_.hold();
  told_.with(held).may_go_over = true;
  forEachOpen([](DeviceHeap& heap) { heap.budget().goOver(); });
}

void DeviceHeaps::boundAllBut(c10::DeviceIndex device) {
  const auto held = guard_.hold();
  told_.with(held).may_go_over = false;
  const DeviceHeap* const trained = openHeap(device);
  forEachOpen([trained](DeviceHeap& heap) {
    if (&heap != trained) heap.memory().limitOverrun(0);
  });
}

// -----------------------------------------------------------------------------------------------
// histories

void DeviceHeaps::setHistory(std::size_t most_entries, bool clear) {
  const auto held = guard_.hold();
  told_.with(held).most_entries = most_entries;
  forEachOpen([&](DeviceHeap& heap) { heap.ledger().setHistory(most_entries, clear); });
}

void DeviceHeaps::addTracker(const c10::CachingDeviceAllocator::AllocatorTraceTracker& tracker) {
  const auto held = guard_.hold();
  told_.with(held).trackers.push_back(tracker);
  forEachOpen([&](DeviceHeap& heap) { heap.ledger().addTracker(tracker); });
}

}  // namespace ebbtide::plugin::cuda
