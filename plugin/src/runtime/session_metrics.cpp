// What a Session exports: gauges at the end of each step, what is learnt of the rank, and the file
// of its series.
#include <fmt/format.h>

#include <chrono>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "base/system_time.hpp"
#include "ebbtide/scheduler/rank_actions.hpp"
#include "ebbtide/scheduler/shown_text.hpp"
#include "plan/plan_picture.hpp"
#include "runtime/session.hpp"

namespace ebbtide::plugin {
namespace {

using metrics::Counter;
using metrics::Gauge;

// Of what is mapped, what lies in no block and cannot serve another one.
double fragmentation(const allocator::Statistics& memory) {
  const std::int64_t stuck = memory.mapped_bytes - memory.allocated_bytes - memory.cached_bytes;
  if (memory.mapped_bytes <= 0 || stuck <= 0) return 0;
  return static_cast<double>(stuck) / static_cast<double>(memory.mapped_bytes);
}

}  // namespace

// The allocator counts by itself; its totals never fall but where another memory takes its place.
void Session::refreshMetrics(const Held& held, const allocator::Statistics& memory,
                             double step_seconds) {
  metrics_.setBytes(Gauge::kAllocatedBytes, memory.allocated_bytes);
  metrics_.setBytes(Gauge::kMappedBytes, memory.mapped_bytes);
  metrics_.setBytes(Gauge::kCachedBytes, memory.cached_bytes);
  metrics_.setBytes(Gauge::kPeakBytes, figures_.allocatedPeakBytes());
  metrics_.setBytes(Gauge::kMappedPeakBytes, figures_.mappedPeakBytes());
  metrics_.setBytes(Gauge::kStepPeakBytes, memory.allocated_peak_bytes);
  metrics_.set(Gauge::kFragmentationRatio, fragmentation(memory));
  metrics_.setBytes(Gauge::kExternalMarginBytes, memory.margin_bytes);
  metrics_.setBytes(Gauge::kUncountedBytes, figures_.uncountedBytes());
  budget_.verdict().exportSmallest(held);
  metrics_.raiseTo(Counter::kAllocations, static_cast<double>(memory.allocations));
  metrics_.raiseTo(Counter::kPlacedAllocations, static_cast<double>(memory.planned_allocations));
  metrics_.raiseTo(Counter::kMisplacedAllocations, static_cast<double>(memory.plan_deviations));
  metrics_.raiseTo(Counter::kReclaims, static_cast<double>(memory.reclaims));
  metrics_.raiseTo(Counter::kBudgetViolations, static_cast<double>(memory.budget_violations));
  if (const auto& plan = programs_.active().plan(); plan != exported_plan_) exportPlan(held, plan);
  metrics_.addStep(step_seconds);
  metrics_.set(Gauge::kLastStepTimestamp, unixSeconds());
  metrics_.noteStepEnd();
}

void Session::exportPlan(const Held&, const std::shared_ptr<const Plan>& plan) {
  exported_plan_ = plan;
  metrics_.setPlan(plan ? plan->planner : "", plan && plan->feasible);
  metrics_.set(Gauge::kPredictedPeakBytes, plan ? static_cast<double>(plan->predicted_peak_bytes)
                                                : std::numeric_limits<double>::quiet_NaN());
  metrics_.set(Gauge::kOverheadRatio, plan ? plan->overhead_ratio : 0);
}

// No step has it yet.
void Session::expectReplays(const Plan& plan) {
  if (plan.picture == nullptr) return;
  std::vector<std::string> ops;
  for (const PlanPicture::Recomputed& row : plan.picture->recomputed) ops.push_back(row.op);
  metrics_.expectReplays(ops);
}

// Where the program names its stages, or the rank's budget is that of its
// stage and it is known by now.
void Session::exportStages(const Held&, const StepSummary& summary) {
  if (!summary.recorded) return;
  const std::vector<std::int32_t> named = scheduler::namedStages(summary.trace);
  if (named.empty()) return;
  metrics_.setStages(named);
  stages_ = named;
}

void Session::noteGpu(GpuIdentity gpu) {
  metrics_.setGpu(gpu.index, gpu.uuid);
  const Held held = mutex_.hold();
  gpu_ = std::move(gpu);
}

std::chrono::steady_clock::time_point Session::nextTextFile() const {
  return text_file_ ? text_file_->due() : std::chrono::steady_clock::time_point::max();
}

// A disk that is full, or a folder that is gone, is the user's to see to; training goes on. What
// the last one says stays when the process has gone: no next step is to be waited for.
void Session::writeTextFile() try {
  if (!text_file_) return;
  if (ends_) {
    for (const Gauge moment : {Gauge::kStartTimestamp, Gauge::kLastStepTimestamp})
      metrics_.set(moment, std::numeric_limits<double>::quiet_NaN());
  }
  const auto problem = text_file_->write(metrics_.render(), std::chrono::steady_clock::now());
  if (!problem) return;
  warn(fmt::format("the series are not written to the file of EBBTIDE_TEXTFILE: {}: {}",
                   scheduler::shownText(config_->text_file_path, scheduler::kMostOfPath),
                   *problem));
} catch (const std::exception& error) {
  debug(std::string("the series could not be written: ") + error.what());
}

}  // namespace ebbtide::plugin
