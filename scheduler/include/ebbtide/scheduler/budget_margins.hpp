// BudgetMargins: the part of a budget that no plan may use, and the budgets that follow from it. A
// training and a prediction of one plan and name budgets by these margins.
#pragma once

#include "ebbtide/scheduler/units.hpp"

namespace ebbtide::scheduler {

struct BudgetMargins {
  double headroom_share = 0;       // of the budget: rounding and order of frees
  Bytes least_headroom_bytes = 0;  // whatever the budget
  Bytes unplanned_bytes = 0;       // that others hold, or that lie in no block

  Bytes headroomBytes(Bytes budget_bytes) const;
  // For a plan's peak; below 0 where the budget is too small for anything.
  Bytes capBytes(Bytes budget_bytes) const;
  // The smallest budget that leaves so much beside its headroom.
  Bytes budgetWithRoomFor(Bytes bytes) const;
  // The budget that is told to users where steps need so much (`unplanned_bytes` included), in
  // whole MiB; 0 of 0: not known.
  Bytes namedBudgetBytes(Bytes needed_bytes) const;
};

}  // namespace ebbtide::scheduler
