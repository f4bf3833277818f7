// What a Session writes to files: the report at exit and recorded traces.
#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "ebbtide/metrics/or_null.hpp"
#include "nccl/nccl_side.hpp"
#include "out_of_memory/out_of_memory.hpp"
#include "runtime/run_json.hpp"
#include "runtime/session.hpp"
#include "version.hpp"

namespace ebbtide::plugin {
namespace {

using allocator::Bytes;

constexpr std::size_t kMostShares = 5;  // of live memory, that are told

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

// nullptr: the rank's steps exchange no messages with others.
nlohmann::json ofJob(const std::optional<JobTraffic>& traffic) {
  if (!traffic) return nullptr;
  return {{"store_bytes_written", traffic->written_bytes},
          {"store_bytes_read", traffic->read_bytes}};
}

}  // namespace

bool Session::observesBy(const EventLog* log) const {
  const auto held = mutex_.tryHold();
  return held && turn_.isOf(log);
}

std::string Session::outOfMemoryMessage(std::size_t request_bytes, const std::string& by,
                                        const LiveShares& live) const {
  const allocator::Statistics memory = trained_.memory().statistics();
  OutOfMemory facts{
      .requested_bytes = static_cast<std::int64_t>(request_bytes),
      .requested_by = by,
      // A small one may need a page.
      .block_bytes =
          std::max(trained_.memory().blockBytesFor(request_bytes), allocator::kUnitBytes),
      .device_total_bytes = usableMemoryBytes(),
      .budget_bytes = memory.budget_bytes,
      .margin_bytes = memory.margin_bytes,
      .mapped_bytes = memory.mapped_bytes,
      .live_bytes = memory.allocated_bytes,
      .live_by_op = live.largest(kMostShares, memory.allocated_bytes),
      .first_deviation = trained_.memory().planned().firstDeviation(allocator::Stream::kDefault),
      .smallest_feasible_bytes = budget_.verdict().told().smallestBytes(),
      .overrun_limit_bytes = trained_.memory().overrunLimitBytes(),
      .spill_error = trained_.offloadFails() ? trained_.spills().lastError() : ""};
  facts.stuck_bytes =
      std::max<std::int64_t>(0, memory.mapped_bytes - memory.allocated_bytes - memory.cached_bytes);
  // Free pages can be joined to one block, with what the budget has left.
  const bool limited = memory.budget_bytes != allocator::kUnlimited;
  const std::int64_t room =
      limited ? std::max<std::int64_t>(0, trained_.memory().ledger().roomBytes()) : 0;
  facts.largest_free_bytes = memory.cached_bytes + room;
  facts.free_bytes = facts.largest_free_bytes + facts.stuck_bytes;
  // Without waiting: the thread may hold the lock.
  if (const auto held = mutex_.tryHold()) budget_.verdict().grown().addTo(*held, facts);
  return describe(facts);
}

void Session::rewriteReport() {
  bool any_step = false;
  {
    const Held held = mutex_.hold();
    any_step = steps_ > 0;
  }
  if (files_.takesReport(any_step)) writeReport();
}

std::string Session::reportText() const {
  const Held held = mutex_.hold();
  const Program none;
  const Program& program = programs_.main() != nullptr ? *programs_.main() : none;
  const Program& largest = programs_.largest() != nullptr ? *programs_.largest() : none;
  scheduler::ActivationShares shares = largest.shares;
  shares.addRestOf(largest.activation_bytes);
  const Bytes activation_bytes = shares.totalBytes();
  const allocator::Statistics memory = trained_.memory().statistics();
  const allocator::PlacedBytes placed = trained_.memory().planned().placedBytes();
  const auto step_time = stepTime(held);
  const RankBudget& of_rank = budget_.ofRank(held);
  const BudgetVerdict& verdict = budget_.verdict();
  // Of a run that is refused the search, which could tell whether there is a plan, did not end.
  const bool refused = verdict.refusal().stop(held).raised();
  const Plan* const plan = refused && program.first.any() ? nullptr : program.plan.get();
  nlohmann::json report = {
      {"version", kVersion},
      {"torch_version", torch_version_},
      {"rank", config_->rank},
      {"world_size", config_->world_size},
      {"mode", budget_.modeName(held)},
      {"ended", ends_.load()},
      {"budget_bytes", metrics::orNull(budget())},
      {"stages", of_rank.isOfStage() ? nlohmann::json(of_rank.stages()) : nlohmann::json()},
      {"base_bytes", base_bytes_},
      {"activation_bytes", activation_bytes},
      {"recomputable_bytes", shares.recomputable_bytes},
      {"kept_bytes", shares.kept_bytes},
      {"plain_peak_bytes", largest.plain_peak_bytes},
      {"peak_bytes", figures_.allocatedPeakBytes()},
      {"steady_peak_bytes",
       program.steady_peak_bytes > 0 ? program.steady_peak_bytes : figures_.allocatedPeakBytes()},
      {"mapped_peak_bytes", figures_.mappedPeakBytes()},
      {"first_step_peak_bytes", first_step_peak_bytes_},
      {"predicted_peak_bytes", program.predicted_peak_bytes},
      {"smallest_budget_without_spilling_bytes", verdict.notices().withoutSpillBytes(held)},
      {"budget_violations", verdict.violations(held)},
      {"others_bytes", trained_.othersBytes()},
      {"used_peak_bytes", figures_.usedPeakBytes()},
      {"uncounted_bytes", figures_.uncountedBytes()},
      {"placed_blocks", memory.planned_allocations},
      {"misplaced_blocks", memory.plan_deviations},
      {"placed_bytes", placed.placed},
      {"misplaced_bytes", placed.misplaced + placed.short_of_pages},
      {"steps", steps_},
      {"step_seconds",
       {{"first", figures_.firstSeconds()},
        {"median", step_time ? step_time->seconds : 0},
        {"total", figures_.totalSeconds()}}},
      {"audited", replay_trust_.equalReplays()},
      {"rejected", replay_trust_.rejectedReplays()},
      {"rehearsed_steps", replay_trust_.rehearsedSteps()},
      {"smallest_feasible_budget_bytes", verdict.told().smallestBytes()},
      {"needed_bytes", verdict.floorBytes()},
      {"margins", ofMargins(trained_)},
      {"dominating", verdict.refusal().savedText(held)},
      {"pass_through", disabled_.load()},
      {"timeline", timelineJson(*figures_.timeline())},
      {"plan", planSummary(plan, programs_.active().firstStep())},
      {"communication", ofCommunication(ncclTotals())},
      {"job", ofJob(job_.traffic())},
  };
  report.update(ofExecutor(counters_.totals()));
  return report.dump(1, ' ', false, nlohmann::json::error_handler_t::replace) + '\n';
}

}  // namespace ebbtide::plugin
