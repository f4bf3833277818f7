#include "runtime/budget/measured_budget.hpp"

#include <fmt/format.h>

#include <cstdlib>
#include <utility>

#include "ebbtide/scheduler/graph_builder.hpp"
#include "ebbtide/scheduler/simulator.hpp"

namespace ebbtide::plugin {
namespace {

bool isSame(std::int64_t base_bytes, std::int64_t other_bytes) {
  const std::int64_t change = std::abs(base_bytes - other_bytes);
  return change == 0 || change * 100 < MeasuredBudget::kSettledPercent * other_bytes;
}

}  // namespace

// Forward passes alone may come between two steps: the last one to begin counts.
void MeasuredBudget::noteBegin(std::int64_t steps, Bytes base_bytes) {
  const bool next = begun_after_ >= 0 && steps > begun_after_;
  begun_after_ = steps;
  if (settled_) return;
  if (next) settled_ = isSame(base_bytes, last_base_bytes_) || steps >= kMostMeasured;
  last_base_bytes_ = base_bytes;
}

bool MeasuredBudget::isLate() {
  return awaits() && begun_after_ >= kLateSteps && !std::exchange(said_late_, true);
}

void MeasuredBudget::know(const scheduler::BudgetFacts& facts) {
  if (!wanted_) return;
  const auto bytes = scheduler::resolve(*wanted_, facts);
  if (!bytes) return;
  known_form_ = wanted_;
  facts_ = facts;
  bytes_ = *bytes;
}

std::string notMeasuredText() {
  return fmt::format(
      "what a step takes is not known yet, for what lives when it begins still grows (the "
      "optimizer's state): ask again in {} steps",
      MeasuredBudget::kMostMeasured);
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
