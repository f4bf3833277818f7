#include "runtime/output/metrics_export.hpp"

#include <fmt/format.h>

#include <exception>
#include <limits>
#include <utility>

#include "base/system_time.hpp"
#include "ebbtide/scheduler/rank_actions.hpp"
#include "ebbtide/scheduler/shown_text.hpp"
#include "plan/plan_picture.hpp"
#include "version.hpp"

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

// 0 would be taken for a figure.
double unlessZero(std::int64_t bytes) {
  return bytes > 0 ? static_cast<double>(bytes) : std::numeric_limits<double>::quiet_NaN();
}

metrics::RankLabels labelsOf(const Config& config) {
  return {config.rank, config.local_rank, config.job_id};
}

}  // namespace

MetricsExport::MetricsExport(const CurrentConfig& config, const std::string& torch_version,
                             Tell warn, Tell debug)
    : config_(config),
      warn_(std::move(warn)),
      debug_(std::move(debug)),
      series_(labelsOf(*config)) {
  noteBudget(config->budget.bytes);
  series_.setBuild(kVersion, torch_version);
}

// -----------------------------------------------------------------------------------------------
// the rank

void MetricsExport::becomeRank() {
  series_.setRank(labelsOf(*config_));
}

void MetricsExport::noteStart() {
  series_.set(Gauge::kStartTimestamp, unixSeconds());
}

void MetricsExport::noteBudget(std::optional<std::int64_t> bytes) {
  series_.setBudgetBytes(bytes.value_or(allocator::kUnlimited));
}

void MetricsExport::noteSmallestBudget(std::int64_t bytes) {
  series_.set(Gauge::kSmallestBudgetBytes, unlessZero(bytes));
}

void MetricsExport::noteGpu(const Held&, GpuIdentity gpu) {
  series_.setGpu(gpu.index, gpu.uuid);
  gpu_ = std::move(gpu);
}

void MetricsExport::noteStages(const Held&, const std::vector<std::int32_t>& stages) {
  series_.setStages(stages);
  stages_ = stages;
}

// Where the program names its stages, or the rank's budget is that of its stage and it is known by
// now.
void MetricsExport::learnStages(const Held& held, const StepSummary& summary) {
  if (!summary.recorded) return;
  const std::vector<std::int32_t> named = scheduler::namedStages(summary.trace);
  if (!named.empty()) noteStages(held, named);
}

// -----------------------------------------------------------------------------------------------
// steps

// The allocator counts by itself; its totals never fall but where another memory takes its place.
void MetricsExport::noteStep(const Held& held, const Step& step) {
  const allocator::Statistics& memory = step.memory;
  series_.setBytes(Gauge::kAllocatedBytes, memory.allocated_bytes);
  series_.setBytes(Gauge::kMappedBytes, memory.mapped_bytes);
  series_.setBytes(Gauge::kCachedBytes, memory.cached_bytes);
  series_.setBytes(Gauge::kPeakBytes, step.figures.allocatedPeakBytes());
  series_.setBytes(Gauge::kMappedPeakBytes, step.figures.mappedPeakBytes());
  series_.setBytes(Gauge::kStepPeakBytes, memory.allocated_peak_bytes);
  series_.set(Gauge::kFragmentationRatio, fragmentation(memory));
  series_.setBytes(Gauge::kExternalMarginBytes, memory.margin_bytes);
  series_.setBytes(Gauge::kUncountedBytes, step.figures.uncountedBytes());
  series_.raiseTo(Counter::kAllocations, static_cast<double>(memory.allocations));
  series_.raiseTo(Counter::kPlacedAllocations, static_cast<double>(memory.planned_allocations));
  series_.raiseTo(Counter::kMisplacedAllocations, static_cast<double>(memory.plan_deviations));
  series_.raiseTo(Counter::kReclaims, static_cast<double>(memory.reclaims));
  noteViolations(memory.budget_violations);
  series_.set(Gauge::kPredictedPeakBytes,
              unlessZero(step.plan != nullptr ? step.plan->predicted.peak_bytes : 0));
  noteShown(held, step.shown);
  series_.addStep(step.seconds);
  series_.set(Gauge::kLastStepTimestamp, unixSeconds());
  series_.noteStepEnd();
}

void MetricsExport::noteViolations(std::int64_t violations) {
  series_.raiseTo(Counter::kBudgetViolations, static_cast<double>(violations));
}

void MetricsExport::noteShown(const Held&, const std::shared_ptr<const Plan>& shown) {
  if (shown == exported_plan_) return;
  exported_plan_ = shown;
  series_.setPlan(shown ? shown->origin.planner : "", shown && shown->feasible);
  series_.set(Gauge::kOverheadRatio, shown ? shown->predicted.overhead_ratio : 0);
}

// No step has it yet.
void MetricsExport::expectReplays(const Plan& plan) {
  if (plan.picture == nullptr) return;
  std::vector<std::string> ops;
  for (const PlanPicture::Recomputed& row : plan.picture->recomputed) ops.push_back(row.op);
  series_.expectReplays(ops);
}

// -----------------------------------------------------------------------------------------------
// the file

void MetricsExport::openFile() {
  file_.reset();
  if (!config_->files.text_file.empty()) file_.emplace(config_->files.text_file);
}

MetricsExport::Time MetricsExport::nextFile() const {
  return file_ ? file_->due() : Time::max();
}

// A disk that is full, or a folder that is gone, is the user's to see to; training goes on. What
// the last one says stays when the process has gone: no next step is to be waited for.
void MetricsExport::writeFile(bool ends) try {
  if (!file_) return;
  if (ends) {
    for (const Gauge moment : {Gauge::kStartTimestamp, Gauge::kLastStepTimestamp})
      series_.set(moment, std::numeric_limits<double>::quiet_NaN());
  }
  const auto problem = file_->write(series_.render(), std::chrono::steady_clock::now());
  if (!problem) return;
  warn_(fmt::format("the series are not written to the file of EBBTIDE_TEXTFILE: {}: {}",
                    scheduler::shownText(config_->files.text_file, scheduler::kMostOfPath),
                    *problem));
} catch (const std::exception& error) {
  debug_(std::string("the series could not be written: ") + error.what());
}

}  // namespace ebbtide::plugin
