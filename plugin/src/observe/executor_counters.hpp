// ExecutorCounters: what the executor has done so far, and what came of it: for the report, the
// metrics and what a step is judged by. Torch-free. Thread rule: any thread.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>

#include "ebbtide/metrics/rank_metrics.hpp"

namespace ebbtide::plugin {

class ExecutorCounters {
 public:
  struct Totals {
    std::int64_t recomputed_ops = 0, recompute_ns = 0;
    std::int64_t replays_ahead = 0, ahead_ns = 0;  // of messages
    std::int64_t spilled_bytes = 0;
    // Values given up without a plan, to be computed again, and the replays that did.
    std::int64_t dropped_online_bytes = 0, replayed_online_ops = 0;
    std::int64_t decoded_values = 0, codec_ns = 0;
    std::int64_t offloaded_bytes = 0, offload_ns = 0;  // of a plan: to the host and back
    std::int64_t ooms = 0;                             // errors that a program was given
    std::int64_t replans = 0;         // plans in the place of an earlier one of the program
    std::int64_t followed_steps = 0;  // that dropped nearly all that their plan drops

    Totals operator-(const Totals& before) const;
  };

  explicit ExecutorCounters(metrics::RankMetrics& metrics) : metrics_(metrics) {}

  // Of an operator, once: by this its replays are told apart.
  std::size_t numberOf(const std::string& op) noexcept { return metrics_.opNumber(op); }
  void addReplay(std::size_t op_number, std::int64_t duration_ns) noexcept;
  void addReplaysAhead(std::int64_t replays, std::int64_t duration_ns) noexcept;
  void addSpill(std::int64_t bytes) noexcept;
  void addOnlineDrop(std::int64_t bytes) noexcept;
  void addOnlineReplay() noexcept { ++replayed_online_ops_; }
  void addCode(std::int64_t decoded_values, std::int64_t duration_ns) noexcept;
  void addOffload(std::int64_t written_bytes, std::int64_t duration_ns) noexcept;
  void addOutOfMemory() noexcept;
  void addReplan() noexcept;
  void addFollowedStep() noexcept;

  Totals totals() const noexcept;

 private:
  using Count = std::atomic<std::int64_t>;

  metrics::RankMetrics& metrics_;
  Count recomputed_ops_{0}, recompute_ns_{0}, replays_ahead_{0}, ahead_ns_{0}, spilled_bytes_{0},
      dropped_online_bytes_{0}, replayed_online_ops_{0}, decoded_values_{0}, codec_ns_{0},
      offloaded_bytes_{0}, offload_ns_{0}, ooms_{0}, replans_{0}, followed_steps_{0};
};

}  // namespace ebbtide::plugin
