// PlanImprovement: when a plan that was found at once gives way to what a search has found.
// Torch-free.
#pragma once

#include "plan/plan.hpp"

namespace ebbtide::plugin {

struct PlanImprovement {
  // Share of the step. A verification step takes some 0.6 of a step more than a step does, by
  // verification steps of small models. A gain of a hundredth makes up for that in 60 steps.
  static constexpr double kLeastGain = 0.01;
  // Without a verification step. Another plan still costs the recording of two steps, and the
  // placing of their blocks.
  static constexpr double kLeastComparedGain = 0.002;

  // Both plans are of the same recorded step. `compared`: all replays of `better` have been
  // compared, so that it needs no verification step.
  static bool pays(const Plan& first, const Plan& better, bool compared) {
    if (!first.feasible) return true;
    if (!better.feasible) return false;
    const double gain = first.predicted.overhead_ratio - better.predicted.overhead_ratio;
    return gain >= (compared ? kLeastComparedGain : kLeastGain);
  }
};

}  // namespace ebbtide::plugin
