// DropsAllowed: what this process may still drop, how values may come back, and at which cost.
// Values are computed again where memory was short, or only spilled, or nothing is dropped any
// more. Torch-free.
//
// Thread rule: any thread, without a lock.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <string>
#include <utility>

#include "memory/trained_memory.hpp"
#include "runtime/budget/budget_controller.hpp"
#include "runtime/budget/eviction_costs.hpp"

namespace ebbtide::plugin {

class DropsAllowed {
 public:
  using Tell = std::function<void(const std::string& text)>;

  // `trained` and `budget` must outlive this, and are not used before they are made.
  DropsAllowed(TrainedMemory& trained, const BudgetController& budget, Tell warn, Tell debug)
      : trained_(trained), budget_(budget), warn_(std::move(warn)), debug_(std::move(debug)) {}

  // Memory has been short in this process: steps without a plan keep op records from now on.
  void notePressure() noexcept { pressed_ = true; }
  bool pressed() const noexcept { return pressed_ && !only_spills_ && !keepsEverything(); }
  // The program frees what replays have to read (sharded parameters, say): no more replays without
  // a plan.
  void spillOnly(const std::string& why);
  // From now on nothing is dropped, spilled or recorded, as PyTorch alone: said once. What has been
  // dropped comes back as before.
  void keepEverything(const std::string& why);
  bool keepsEverything() const noexcept { return keeps_everything_ || budget_.paused(); }
  const std::atomic<bool>& keepsForGood() const noexcept { return keeps_everything_; }
  void disable(const std::string& why);  // pass-through from now on, said once
  const std::atomic<bool>& disabled() const noexcept { return disabled_; }

  // A GPU that is measured alone is left as PyTorch has it.
  bool mayGiveUp() const noexcept {
    return !trained_.isElsewhere() || budget_.bytes() ||
           !budget_.run().config->budget.written.empty();
  }

  // What a drop costs, and in which order values are dropped.
  EvictionCosts& costs() noexcept { return costs_; }
  std::int64_t transientBytes() const noexcept {  // that replays without a plan may take
    return costs_.transientBytes(budget_.bytes().value_or(0),
                                 budget_.verdict().told().neededBytes());
  }

 private:
  TrainedMemory& trained_;
  const BudgetController& budget_;
  const Tell warn_, debug_;
  EvictionCosts costs_;
  std::atomic<bool> pressed_{false}, only_spills_{false};
  std::atomic<bool> keeps_everything_{false}, disabled_{false};
};

}  // namespace ebbtide::plugin
