// ToldBudgets: the budgets that whoever asks is told, of what the steps so far need and have held,
// and of the base as it is now. Torch-free. Thread rule: any thread.
#pragma once

#include <cstdint>

#include "memory/trained_memory.hpp"
#include "runtime/budget_floor.hpp"
#include "runtime/grown_base.hpp"

namespace ebbtide::plugin {

class ToldBudgets {
 public:
  using Bytes = std::int64_t;

  // The arguments must outlive it.
  ToldBudgets(const TrainedMemory& trained, const BudgetFloor& floor, const GrownBase& grown)
      : trained_(trained), floor_(floor), grown_(grown) {}

  // The smallest one in which the steps so far train; 0: not known.
  Bytes smallestBytes() const noexcept;
  // What they need of a budget at least, without the margin of what is told; 0: not known.
  Bytes neededBytes() const noexcept;
  // What steps have held though they should need more; 0: nothing.
  Bytes heldBytes() const noexcept;
  // So that half of what a step saves is given up.
  Bytes halfBytes(Bytes plain_peak_bytes, Bytes activation_bytes) const;

 private:
  const TrainedMemory& trained_;
  const BudgetFloor& floor_;
  const GrownBase& grown_;
};

}  // namespace ebbtide::plugin
