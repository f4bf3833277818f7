// ChainProgram: a dynamic program over the schedules of a chain, solved for all budgets up to one.
#pragma once

#include <functional>

#include "planners/chain/chain_costs.hpp"

namespace ebbtide::scheduler {

// How sizes in bytes become slots.
enum class SlotRounding : std::uint8_t {
  kUp,  // as in rotor2024, section 5.2: the bytes are at most what the slots say
  // To the nearest, for ā by its prefix sums: errors do not add up, but a schedule may be some
  // bytes above or below its slots.
  kNearest,
};

struct SlotGrid {
  double slot_bytes = 1;
  std::int32_t slots = 0;  // the largest budget asked for, beyond input[0]
  SlotRounding rounding = SlotRounding::kUp;
};

class ChainProgram {
 public:
  virtual ~ChainProgram() = default;
  // For the whole chain within so many slots: is there a schedule below the program's bound?
  virtual bool feasible(std::int32_t slots) const = 0;
  // The time that this schedule takes beyond one forward and one backward of each stage.
  // Precondition of this and the next but one: feasible(slots).
  virtual Nanoseconds extraNs(std::int32_t slots) const = 0;
  // The largest number of slots below this one that leads to another schedule; -1 if none does.
  virtual std::int32_t stepBelow(std::int32_t slots) const = 0;
  virtual ChainSchedule schedule(std::int32_t slots) const = 0;
};

}  // namespace ebbtide::scheduler
