// Series: what a rank exports as gauges and counters, by number; names and meanings are one table.
#pragma once

#include <cstddef>
#include <cstdint>

namespace ebbtide::metrics {

// As of the end of the last step, the budget apart.
enum class Gauge : std::uint8_t {
  kBudgetBytes,
  kAllocatedBytes,
  kMappedBytes,
  kCachedBytes,
  kPeakBytes,
  kMappedPeakBytes,
  kStepPeakBytes,
  kFragmentationRatio,
  kExternalMarginBytes,
  kUncountedBytes,
  kPredictedPeakBytes,
  kOverheadRatio,
  kSmallestBudgetBytes,
  kLastStepTimestamp,  // seconds since 1970
  kStartTimestamp,     // likewise
};
inline constexpr std::size_t kGauges = 15;

enum class Counter : std::uint8_t {
  kRecomputedOps,
  kRecomputeSeconds,
  kReplaysAhead,
  kReplayAheadSeconds,
  kDecodedValues,
  kCodecSeconds,
  kOffloadedBytes,
  kOffloadSeconds,
  kSpilledBytes,
  kEvictedBytes,
  kBudgetViolations,
  kOutOfMemory,
  kReplans,
  kVerificationSteps,
  kFollowedSteps,
  kAudits,
  kAuditFailures,
  kAllocations,
  kPlacedAllocations,
  kMisplacedAllocations,
  kReclaims,
};
inline constexpr std::size_t kCounters = 21;

struct SeriesText {
  const char* name;
  const char* help;
};
const SeriesText& textOf(Gauge gauge) noexcept;
const SeriesText& textOf(Counter counter) noexcept;

// Is it unknown until it is set, and NaN until then? 0 would be taken for a figure.
bool startsUnknown(Gauge gauge) noexcept;

}  // namespace ebbtide::metrics
