// PlanImprovement: when a plan that was found at once gives way to what a search has found.
// Torch-free.
#pragma once

#include "plan/plan.hpp"

namespace ebbtide::plugin {

struct PlanImprovement {
  // Of the step. A rehearsal takes at most some 1.6 times as long as a step, which so much each
  // step has made up for after 60 steps.
  static constexpr double kLeastGain = 0.01;
  // Where there is none: two steps are recorded, and their blocks placed, for each other plan.
  static constexpr double kLeastComparedGain = 0.002;

  // Both of the same recorded step. `compared`: all that `better` replays was, so that it needs no
  // rehearsal.
  static bool pays(const Plan& first, const Plan& better, bool compared) {
    if (!first.feasible) return true;
    if (!better.feasible) return false;
    const double gain = first.overhead_ratio - better.overhead_ratio;
    return gain >= (compared ? kLeastComparedGain : kLeastGain);
  }
};

}  // namespace ebbtide::plugin
