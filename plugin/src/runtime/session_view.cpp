// What a Session shows to those who look on.
#include "runtime/session.hpp"

namespace ebbtide::plugin {

RunView Session::view(const Held& held) const {
  const Program* const current = steps_.programs.current();
  const bool all_held =
      budget_.openSteps(held).settled() &&
      trained_.memory().budgetTracker().overruns() == steps_.taken.violationsBefore();
  return {.process = {.awake = life_.awake,
                      .ended = life_.ends,
                      .passes_through = drops_.disabled(),
                      .keeps_everything = drops_.keepsForGood()},
          .rank = {.gpu = outputs_.metrics.gpu(held), .stages = outputs_.metrics.stages(held)},
          .budget = {.bytes = trained_.budgetBytes(),
                     .number = budget_.number(held),
                     .mode = budget_.modeName(held),
                     .is_paused = budget_.ofRank(held).isPaused(),
                     .held_steps = trained_.budgetBytes() && all_held
                                       ? steps_.ended - steps_.taken.stepsBefore()
                                       : 0},
          .steps = {.count = steps_.ended,
                    .is_open = steps_.taken.isOpen(),
                    .first_seconds = steps_.figures.firstSeconds(),
                    .recent = steps_.taken.recent(),
                    .time = steps_.stepTime(held),
                    .recorded = steps_.taken.recorded().all(),
                    .largest = steps_.taken.recorded().largest()},
          .memory = {.cached_bytes = steps_.taken.memory().cached_bytes,
                     .base_bytes = steps_.base_bytes,
                     .peak_allocated_bytes = steps_.figures.allocatedPeakBytes(),
                     .peak_mapped_bytes = steps_.figures.mappedPeakBytes(),
                     .predicted_peak_bytes =
                         current != nullptr ? current->in_force.predicted_peak_bytes : 0,
                     .timeline = steps_.figures.timeline()},
          .shown = shownPlan(held, budget_)};
}

}  // namespace ebbtide::plugin
