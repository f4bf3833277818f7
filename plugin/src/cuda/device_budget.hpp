// DeviceBudget: how much of one device may be mapped: the smaller of a budget and of torch's
// fraction, less what others hold of the device.
//
//   budget, fraction ─► the smaller of the two ─► DeviceMemory's budget
//   the device's use, less our pages: others' ──► its margin, where less than the device bounds it
//
// Thread rule: any thread. Its lock is innermost: held in no call of DeviceMemory.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <string>

#include "base/guard.hpp"
#include "ebbtide/allocator/cuda/device.hpp"
#include "ebbtide/allocator/device_memory.hpp"
#include "ebbtide/scheduler/budget_form.hpp"

namespace ebbtide::plugin::cuda {

using allocator::Bytes;

class DeviceBudget {
 public:
  using LookAtDevice = std::function<allocator::cuda::MemoryInfo()>;

  // The memory outlives it. Its budget becomes all of the device, and it may not go over that.
  // `measure_every`: how old a look at the device may be when pages are mapped.
  DeviceBudget(allocator::DeviceMemory& memory, LookAtDevice look_at_device,
               std::chrono::nanoseconds measure_every);

  // Without either it is all of the device, and what others hold of it is not counted.
  void setBudget(Bytes bytes);
  void setFraction(double fraction);
  Bytes totalBytes() const noexcept { return total_bytes_; }
  Bytes deviceFreeBytes() const { return look_at_device_().free_bytes; }  // now
  Bytes mostBytes() const;  // of the device, that torch's own fraction leaves
  // What a budget's text may refer to: the device's size; the size less 5 %, within the fraction;
  // others' use when it was measured last, which counts in the budget.
  scheduler::BudgetFacts facts() const;

  // Measures what others use of the device: the margin from now on, if a budget bounds our pages.
  // Also done before a request fails, and before pages are mapped if the last figure is old.
  void measureMargin();
  // May pages be mapped? The debit was made by the last figure of others' use, which may have grown
  // since. Unmaps no page; a request that is refused does that next.
  bool mayMap(Bytes debited_bytes) noexcept;
  // Lets pages exceed the budget where nothing can be freed, until the budget is judged. Pages
  // leave 5 % of the device free, and what others use.
  void goOver();

 private:
  struct Asked {
    Bytes budget_bytes = allocator::kUnlimited;
    double fraction = 1.0;
  };

  Asked asked() const;
  bool isBounded() const;  // by less than the device itself
  void apply();
  // The budget tracker is debited with `debited_bytes` that are not mapped yet.
  Bytes lookAtOthers(Bytes debited_bytes);

  allocator::DeviceMemory& memory_;
  const LookAtDevice look_at_device_;
  const std::int64_t measure_every_ns_;
  const Bytes total_bytes_;
  std::atomic<std::int64_t> measured_at_ns_{0};
  std::atomic<Bytes> others_bytes_{0};  // when that was measured last

  mutable Guard<DeviceBudget> guard_;
  Guarded<Asked, DeviceBudget> asked_;
};

// Of a budget as in EBBTIDE_BUDGET; kUnlimited for none, and for one of what a step takes.
Bytes budgetOf(const std::string& text, const DeviceBudget& device);

}  // namespace ebbtide::plugin::cuda
