// ShownPlan: the plan that whoever asks is told: report, status, series, page and `ebbtide plan`
// have this one, so its figures are the same everywhere. Torch-free.
//
//   steps keep everything (paused, say) ─► none
//   the main program has a plan ─► that one
//   else                        ─► that of the program with one that most steps ran
#pragma once

#include <cstdint>
#include <memory>

#include "runtime/budget/budget_controller.hpp"

namespace ebbtide::plugin {

struct ShownPlan {
  std::shared_ptr<const Plan> plan;    // nullptr: none
  std::int64_t active_from_step = -1;  // the first step of its program under it; -1: not in force
  std::int64_t plain_peak_bytes = 0;   // of that program
};

ShownPlan shownPlan(const SessionGuard::Held& held, const BudgetController& budget);

}  // namespace ebbtide::plugin
