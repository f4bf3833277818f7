// ToldBudgets: the budgets that whoever asks is told, of what the steps so far need and have held,
// and of the base as it is now. Torch-free. Thread rule: any thread.
#pragma once

#include <cstdint>

#include "memory/trained_memory.hpp"
#include "runtime/budget/budget_floor.hpp"
#include "runtime/budget/told_growth.hpp"

namespace ebbtide::plugin {

class ToldBudgets {
 public:
  using Bytes = std::int64_t;

  // The arguments must outlive it.
  ToldBudgets(const TrainedMemory& trained, const BudgetFloor& floor, const ToldGrowth& grown)
      : trained_(trained), floor_(floor), grown_(grown) {}

  // Is the base settled? Until then no smallest budget is named.
  bool baseSettled() const noexcept { return floor_.baseSettled(); }
  // The smallest one in which the steps so far train; 0: not known, as until the base is settled.
  Bytes smallestBytes() const noexcept;
  // The same without the margin of what is told.
  Bytes smallestWithoutMarginBytes() const noexcept;
  // What the steps so far need of a budget at least, settled or not; 0: not known.
  Bytes neededBytes() const noexcept;
  // What steps have held though they should need more; 0: nothing.
  Bytes heldBytes() const noexcept;
  // So that half of what a step saves is given up; 0: not known, as above.
  Bytes halfBytes(Bytes plain_peak_bytes, Bytes activation_bytes) const;

 private:
  Bytes needNow() const noexcept;
  Bytes orHeld(Bytes bytes) const noexcept;

  const TrainedMemory& trained_;
  const BudgetFloor& floor_;
  const ToldGrowth& grown_;
};

}  // namespace ebbtide::plugin
