#include "ebbtide/metrics/series.hpp"

#include <array>

namespace ebbtide::metrics {
namespace {

// In the order of Gauge.
constexpr std::array<SeriesText, kGauges> kGaugeTexts = {{
    {"ebbtide_memory_budget_bytes", "Memory budget of this rank; +Inf if there is none."},
    {"ebbtide_memory_allocated_bytes", "Bytes in live blocks of the allocator."},
    {"ebbtide_memory_mapped_bytes",
     "Bytes mapped from the system: live blocks, cached blocks and slack."},
    {"ebbtide_memory_cached_bytes", "Mapped bytes in no block, free to serve another one."},
    {"ebbtide_memory_peak_bytes",
     "Largest number of allocated bytes since the budget was last changed."},
    {"ebbtide_memory_mapped_peak_bytes",
     "Largest number of mapped bytes since the budget was last changed; it bounds them."},
    {"ebbtide_memory_step_peak_bytes", "Largest number of allocated bytes in the last step."},
    {"ebbtide_memory_fragmentation_ratio",
     "Share of the mapped bytes that lie in no block and cannot serve another one."},
    {"ebbtide_memory_external_margin_bytes",
     "Bytes of the budget that others hold of the device: context, libraries, communication."},
    {"ebbtide_memory_uncounted_bytes",
     "Most bytes of others' memory (NumPy, shared, mapped files) that tensors of a step lay in at "
     "a "
     "time; no budget counts them."},
    {"ebbtide_plan_predicted_peak_bytes",
     "Allocated bytes at the peak that the plan of the last step predicts; NaN without a plan."},
    {"ebbtide_plan_overhead_ratio",
     "Time that the main program's plan adds, over that of a step without; 0 without a plan."},
    {"ebbtide_memory_smallest_feasible_budget_bytes",
     "Smallest budget that the steps so far can be trained in; NaN until it is known."},
    {"ebbtide_last_step_timestamp_seconds",
     "When the last step ended, in seconds since 1970; NaN before the first one, and when the run "
     "has ended."},
    {"ebbtide_start_timestamp_seconds",
     "When the first step began, in seconds since 1970; NaN when the run has ended."},
}};

// In the order of Counter.
constexpr std::array<SeriesText, kCounters> kCounterTexts = {{
    {"ebbtide_recomputed_ops_total", "Operators run again to save memory."},
    {"ebbtide_recompute_seconds_total", "Time spent running operators again."},
    {"ebbtide_replays_ahead_total",
     "Operators run again before a wait for another rank's message."},
    {"ebbtide_replay_ahead_seconds_total", "Time spent on that."},
    {"ebbtide_decoded_values_total", "Values that were kept as one bit a word and given back."},
    {"ebbtide_codec_seconds_total", "Time spent encoding and decoding them."},
    {"ebbtide_offloaded_bytes_total", "Bytes written to the host by plans."},
    {"ebbtide_offload_seconds_total", "Time spent writing and reading them back."},
    {"ebbtide_spilled_bytes_total",
     "Bytes written to the host because memory was short, beside any plan."},
    {"ebbtide_evicted_bytes_total",
     "Bytes given up because memory was short, to be computed again, beside any plan."},
    {"ebbtide_budget_violations_total",
     "Allocations that were let over the budget because nothing could be freed."},
    {"ebbtide_ooms_total", "Allocations that failed with an out-of-memory error."},
    {"ebbtide_replans_total", "Plans that took the place of an earlier one of the same program."},
    {"ebbtide_rehearsed_steps_total", "Steps in which replays were compared with originals."},
    {"ebbtide_followed_steps_total",
     "Steps that dropped at least 95 % of the bytes that their plan drops."},
    {"ebbtide_audits_total", "Results of replays compared with their originals and found equal."},
    {"ebbtide_audit_failures_total",
     "Operators that are never run again because a replay differed or failed."},
    {"ebbtide_allocations_total", "Blocks given out by the allocator."},
    {"ebbtide_placed_allocations_total", "Blocks given out at the address planned for them."},
    {"ebbtide_misplaced_allocations_total",
     "Blocks given out elsewhere in steps with planned addresses."},
    {"ebbtide_reclaims_total", "Times that the allocator asked for memory to be given up."},
}};

}  // namespace

const SeriesText& textOf(Gauge gauge) noexcept {
  return kGaugeTexts[static_cast<std::size_t>(gauge)];
}

const SeriesText& textOf(Counter counter) noexcept {
  return kCounterTexts[static_cast<std::size_t>(counter)];
}

bool startsUnknown(Gauge gauge) noexcept {
  return gauge == Gauge::kPredictedPeakBytes || gauge == Gauge::kSmallestBudgetBytes ||
         gauge == Gauge::kLastStepTimestamp || gauge == Gauge::kStartTimestamp;
}

}  // namespace ebbtide::metrics
