#include "measured_budget.hpp"

#include <cstdlib>

#include "ebbtide/scheduler/simulator.hpp"
#include "ebbtide/scheduler/trace.hpp"

namespace ebbtide::plugin {

// Forward passes alone may come between two steps: the last one to begin counts.
void MeasuredBudget::noteBegin(std::int64_t steps, Bytes base_bytes) {
  if (settled_) return;
  if (begun_after_ >= 0 && steps > begun_after_) {
    const Bytes change = std::abs(base_bytes - last_base_bytes_);
    const bool same = change == 0 || change * 100 < kSettledPercent * last_base_bytes_;
    settled_ = same || steps >= kMostMeasured;
  }
  begun_after_ = steps;
  last_base_bytes_ = base_bytes;
}

void MeasuredBudget::know(const scheduler::BudgetFacts& facts) {
  if (!wanted_) return;
  const auto bytes = scheduler::resolve(*wanted_, facts);
  if (!bytes) return;
  known_form_ = wanted_;
  facts_ = facts;
  bytes_ = *bytes;
}

scheduler::BudgetFacts factsOf(const std::vector<RecordedStep>& recorded) {
  scheduler::BudgetFacts facts;
  for (const RecordedStep& step : recorded) {
    const scheduler::TraceGraph graph =
        scheduler::buildGraph(*step.trace, {.first_step = step.first_step});
    const auto peak =
        scheduler::simulate(graph.graph, scheduler::keepEverything(graph.graph)).peak_bytes;
    if (facts.plain_peak_bytes && *facts.plain_peak_bytes >= peak) continue;
    facts.plain_peak_bytes = peak;
    facts.activation_bytes = graph.activation_bytes;
  }
  return facts;
}

}  // namespace ebbtide::plugin
