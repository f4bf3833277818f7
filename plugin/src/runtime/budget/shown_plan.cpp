#include "runtime/budget/shown_plan.hpp"

namespace ebbtide::plugin {

ShownPlan shownPlan(const SessionGuard::Held& held, const BudgetController& budget) {
  const ProgramTable& programs = budget.run().programs;
  const Program* const program = programs.shown();
  if (program == nullptr) return {};
  ShownPlan shown;
  shown.plain_peak_bytes = program->plain.peak_bytes;
  // Steps keep everything: none follows it.
  if (budget.run().keeps_everything || budget.paused()) return shown;
  // Of a run that is refused the search, which could tell whether there is a plan, did not end.
  const bool refused = budget.verdict().refusal().stop(held).raised();
  if (program->in_force.plan == nullptr || (refused && program->in_force.first.any())) return shown;
  shown.plan = program->in_force.plan;
  shown.active_from_step = programs.active().fromStepOf(*shown.plan);
  return shown;
}

}  // namespace ebbtide::plugin
