#include "observe/executor_counters.hpp"

namespace ebbtide::plugin {
namespace {

using metrics::Counter;

double seconds(std::int64_t ns) {
  return static_cast<double>(ns) * 1e-9;
}

}  // namespace

void ExecutorCounters::addReplay(std::size_t op_number, std::int64_t duration_ns) noexcept {
  ++recomputed_ops_;
  recompute_ns_ += duration_ns;
  metrics_.addReplay(op_number, duration_ns);
}

void ExecutorCounters::addReplaysAhead(std::int64_t replays, std::int64_t duration_ns) noexcept {
  replays_ahead_ += replays;
  ahead_ns_ += duration_ns;
  metrics_.add(Counter::kReplaysAhead, static_cast<double>(replays));
  metrics_.add(Counter::kReplayAheadSeconds, seconds(duration_ns));
}

void ExecutorCounters::addSpill(std::int64_t bytes) noexcept {
  spilled_bytes_ += bytes;
  metrics_.add(Counter::kSpilledBytes, static_cast<double>(bytes));
}

void ExecutorCounters::addOnlineDrop(std::int64_t bytes) noexcept {
  dropped_online_bytes_ += bytes;
  metrics_.add(Counter::kEvictedBytes, static_cast<double>(bytes));
}

void ExecutorCounters::addCode(std::int64_t decoded_values, std::int64_t duration_ns) noexcept {
  decoded_values_ += decoded_values;
  codec_ns_ += duration_ns;
  metrics_.add(Counter::kDecodedValues, static_cast<double>(decoded_values));
  metrics_.add(Counter::kCodecSeconds, seconds(duration_ns));
}

void ExecutorCounters::addOffload(std::int64_t written_bytes, std::int64_t duration_ns) noexcept {
  offloaded_bytes_ += written_bytes;
  offload_ns_ += duration_ns;
  metrics_.add(Counter::kOffloadedBytes, static_cast<double>(written_bytes));
  metrics_.add(Counter::kOffloadSeconds, seconds(duration_ns));
}

void ExecutorCounters::addOutOfMemory() noexcept {
  ++ooms_;
  metrics_.add(Counter::kOutOfMemory, 1);
}

void ExecutorCounters::addReplan() noexcept {
  ++replans_;
  metrics_.add(Counter::kReplans, 1);
}

void ExecutorCounters::addFollowedStep() noexcept {
  ++followed_steps_;
  metrics_.add(Counter::kFollowedSteps, 1);
}

ExecutorCounters::Totals ExecutorCounters::totals() const noexcept {
  return {.recomputed_ops = recomputed_ops_,
          .recompute_ns = recompute_ns_,
          .replays_ahead = replays_ahead_,
          .ahead_ns = ahead_ns_,
          .spilled_bytes = spilled_bytes_,
          .dropped_online_bytes = dropped_online_bytes_,
          .replayed_online_ops = replayed_online_ops_,
          .decoded_values = decoded_values_,
          .codec_ns = codec_ns_,
          .offloaded_bytes = offloaded_bytes_,
          .offload_ns = offload_ns_,
          .ooms = ooms_,
          .replans = replans_,
          .followed_steps = followed_steps_};
}

ExecutorCounters::Totals ExecutorCounters::Totals::operator-(const Totals& before) const {
  return {.recomputed_ops = recomputed_ops - before.recomputed_ops,
          .recompute_ns = recompute_ns - before.recompute_ns,
          .replays_ahead = replays_ahead - before.replays_ahead,
          .ahead_ns = ahead_ns - before.ahead_ns,
          .spilled_bytes = spilled_bytes - before.spilled_bytes,
          .dropped_online_bytes = dropped_online_bytes - before.dropped_online_bytes,
          .replayed_online_ops = replayed_online_ops - before.replayed_online_ops,
          .decoded_values = decoded_values - before.decoded_values,
          .codec_ns = codec_ns - before.codec_ns,
          .offloaded_bytes = offloaded_bytes - before.offloaded_bytes,
          .offload_ns = offload_ns - before.offload_ns,
          .ooms = ooms - before.ooms,
          .replans = replans - before.replans,
          .followed_steps = followed_steps - before.followed_steps};
}

}  // namespace ebbtide::plugin
