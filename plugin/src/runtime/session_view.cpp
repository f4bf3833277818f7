// What a Session shows to those who look on, and what they ask of it.
#include "runtime/session.hpp"

namespace ebbtide::plugin {
namespace {

RunView::ProgramPlan planIn(const Program* program) {
  if (program == nullptr) return {};
  return {.plan = program->plan,
          .predicted_peak_bytes = program->predicted_peak_bytes,
          .plain_peak_bytes = program->plain_peak_bytes};
}

}  // namespace

RunView Session::view(const Held& held) const {
  const RecordedStep largest = taken_.recorded().largest();
  const Program* const current = programs_.current();
  const Program* drawn = current;
  if ((current == nullptr || current->plan == nullptr) && largest.trace != nullptr) {
    const auto known = programs_.find(largest.trace->signature);
    if (known != programs_.end()) drawn = &known->second;
  }
  const bool all_held = budget_.openSteps(held).settled() &&
                        trained_.memory().ledger().overruns() == taken_.violationsBefore();
  return {.awake = awake_,
          .ended = closing_,
          .passes_through = disabled_,
          .keeps_everything = keeps_everything_,
          .gpu = metrics_.gpu(held),
          .stages = metrics_.stages(held),
          .budget_bytes = budget(),
          .budget_number = budget_.number(held),
          .mode = budget_.modeName(held),
          .is_paused = budget_.ofRank(held).isPaused(),
          .held_steps = budget() && all_held ? steps_ - taken_.stepsBefore() : 0,
          .steps = steps_,
          .step_is_open = taken_.isOpen(),
          .first_step_seconds = figures_.firstSeconds(),
          .recent = taken_.recent(),
          .step_time = stepTime(held),
          .recorded = taken_.recorded().all(),
          .largest = largest,
          .cached_bytes = taken_.memory().cached_bytes,
          .base_bytes = base_bytes_,
          .peak_allocated_bytes = figures_.allocatedPeakBytes(),
          .peak_mapped_bytes = figures_.mappedPeakBytes(),
          .timeline = figures_.timeline(),
          .current = planIn(current),
          .drawn = planIn(drawn),
          .active_plan = programs_.active().plan(),
          .active_from_step = programs_.active().fromStep()};
}

void Session::planAllAnew(const Held& held) {
  for (auto& [signature, known] : programs_) known.forgetVerdict();
  budget_.judgeAgain(held);
  to_record_.atLeast(3);
}

}  // namespace ebbtide::plugin
