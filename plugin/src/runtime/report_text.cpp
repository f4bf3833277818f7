#include "runtime/report_text.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "ebbtide/metrics/or_null.hpp"
#include "nccl/nccl_side.hpp"
#include "runtime/budget/shown_plan.hpp"
#include "runtime/output/run_json.hpp"
#include "version.hpp"

namespace ebbtide::plugin {
namespace {

using allocator::Bytes;

// nullptr: nobody told.
nlohmann::json ofCommunication(const std::optional<CommunicationTotals>& totals) {
  if (!totals) return nullptr;
  nlohmann::json kinds = nlohmann::json::object();
  for (std::size_t i = 0; i < kCommunicationKinds; ++i) {
    const CommunicationTotals::Kind& kind = totals->kinds[i];
    if (kind.operations == 0) continue;
    kinds[nameOf(static_cast<CommunicationKind>(i))] = {
        {"operations", kind.operations},
        {"bytes", kind.bytes},
        {"seconds", static_cast<double>(kind.duration_ns) * 1e-9}};
  }
  return {{"kinds", kinds}, {"unseen", totals->unseen}, {"lost", totals->lost}};
}

nlohmann::json ofExecutor(const ExecutorCounters::Totals& done) {
  return {{"recomputed_ops", done.recomputed_ops},
          {"recompute_seconds", static_cast<double>(done.recompute_ns) * 1e-9},
          {"replays_ahead", done.replays_ahead},
          {"ahead_seconds", static_cast<double>(done.ahead_ns) * 1e-9},
          {"decoded_values", done.decoded_values},
          {"codec_seconds", static_cast<double>(done.codec_ns) * 1e-9},
          {"offloaded_bytes", done.offloaded_bytes},
          {"offload_seconds", static_cast<double>(done.offload_ns) * 1e-9},
          {"spilled_bytes", done.spilled_bytes},
          {"dropped_online_bytes", done.dropped_online_bytes},
          {"replayed_online_ops", done.replayed_online_ops},
          {"followed_steps", done.followed_steps}};
}

nlohmann::json ofMargins(const TrainedMemory& memory) {
  const scheduler::BudgetMargins margins = memory.margins();
  const scheduler::BudgetFacts facts = memory.memoryFacts();
  return {{"headroom_share", margins.headroom_share},
          {"least_headroom_bytes", margins.least_headroom_bytes},
          {"unplanned_bytes", margins.unplanned_bytes},
          {"whole_bytes", facts.memory_bytes.value_or(0)},
          {"available_bytes", facts.available_bytes.value_or(0)}};
}

nlohmann::json ofPlacement(allocator::DeviceMemory& memory) {
  const allocator::Statistics statistics = memory.statistics();
  const allocator::PlacedBytes placed = memory.placed().placedBytes();
  return {{"placed_blocks", statistics.planned_allocations},
          {"misplaced_blocks", statistics.plan_deviations},
          {"placed_bytes", placed.placed},
          {"misplaced_bytes", placed.misplaced + placed.short_of_pages}};
}

// Of the program with the largest peak without the plugin.
nlohmann::json ofActivations(const Program& largest) {
  scheduler::ActivationShares shares = largest.plain.shares;
  shares.addRestOf(largest.plain.activation_bytes);
  return {{"activation_bytes", shares.totalBytes()},
          {"recomputable_bytes", shares.recomputable_bytes},
          {"kept_bytes", shares.kept_bytes},
          {"plain_peak_bytes", largest.plain.peak_bytes}};
}

// `steady_bytes`: the peak of steps under a plan; 0: not known.
nlohmann::json ofPeaks(const RunFigures& figures, Bytes steady_bytes) {
  const Bytes allocated_bytes = figures.allocatedPeakBytes();
  return {{"peak_bytes", allocated_bytes},
          {"steady_peak_bytes", steady_bytes > 0 ? steady_bytes : allocated_bytes},
          {"mapped_peak_bytes", figures.mappedPeakBytes()},
          {"used_peak_bytes", figures.usedPeakBytes()},
          {"uncounted_bytes", figures.uncountedBytes()}};
}

nlohmann::json ofVerdict(const SessionGuard::Held& held, const BudgetVerdict& verdict) {
  return {{"smallest_budget_without_spilling_bytes", verdict.notices().withoutSpillBytes(held)},
          {"budget_violations", verdict.violations(held)},
          {"smallest_feasible_budget_bytes", verdict.told().smallestBytes()},
          {"needed_bytes", verdict.told().smallestWithoutMarginBytes()},
          {"dominating", verdict.refusal().savedText(held)}};
}

// nullptr: the rank's steps exchange no messages with others.
nlohmann::json ofJob(const std::optional<JobTraffic>& traffic) {
  if (!traffic) return nullptr;
  return {{"store_bytes_written", traffic->written_bytes},
          {"store_bytes_read", traffic->read_bytes}};
}

}  // namespace

std::string reportText(const SessionGuard::Held& held, const ReportedRun& run) {
  const StepsSoFar& steps = run.steps;
  const ProgramTable& programs = steps.programs;
  const RunFigures& figures = steps.figures;
  const Config& config = *run.budget.run().config;
  const TrainedMemory& trained = run.budget.run().trained;
  const Program none;
  const Program& program = programs.shown() != nullptr ? *programs.shown() : none;
  const Program& largest = programs.largest() != nullptr ? *programs.largest() : none;
  const auto step_time = steps.stepTime(held);
  const RankBudget& of_rank = run.budget.ofRank(held);
  const BudgetVerdict& verdict = run.budget.verdict();
  const ShownPlan shown = shownPlan(held, run.budget);
  const std::int64_t first_planned = programs.active().firstStep();
  nlohmann::json report = {
      {"version", kVersion},
      {"torch_version", run.torch_version},
      {"rank", config.rank},
      {"world_size", config.world_size},
      {"mode", run.budget.modeName(held)},
      {"ended", run.ended},
      {"budget_bytes", metrics::orNull(run.budget.bytes())},
      {"stages", of_rank.isOfStage() ? nlohmann::json(of_rank.stages()) : nlohmann::json()},
      {"base_bytes", steps.base_bytes},
      {"first_step_peak_bytes", steps.first_peak_bytes},
      {"predicted_peak_bytes", program.in_force.predicted_peak_bytes},
      {"others_bytes", trained.othersBytes()},
      {"steps", steps.ended},
      {"step_seconds",
       {{"first", figures.firstSeconds()},
        {"median", step_time ? step_time->seconds : 0},
        {"total", figures.totalSeconds()}}},
      {"audited", run.trust.equalReplays()},
      {"rejected", run.trust.rejectedReplays()},
      {"rehearsed_steps", run.trust.verificationSteps()},
      {"margins", ofMargins(trained)},
      {"pass_through", run.passes_through},
      {"timeline", timelineJson(*figures.timeline())},
      {"plan", planSummary(shown.plan.get(), shown.active_from_step)},
      {"first_planned_step", first_planned < 0 ? nlohmann::json() : nlohmann::json(first_planned)},
      {"communication", ofCommunication(ncclTotals())},
      {"job", ofJob(run.job.traffic())},
  };
  report.update(ofActivations(largest));
  report.update(ofPeaks(figures, program.in_force.steady_peak_bytes));
  report.update(ofVerdict(held, verdict));
  report.update(ofPlacement(trained.memory()));
  report.update(ofExecutor(run.budget.run().counters.totals()));
  return report.dump(1, ' ', false, nlohmann::json::error_handler_t::replace) + '\n';
}

}  // namespace ebbtide::plugin
