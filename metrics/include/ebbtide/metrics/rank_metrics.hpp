// RankMetrics: the series of one rank. Gauges and counters are prometheus-cpp's, with the labels
// rank, local_rank, job_id, which are settled before a rank is scraped. What is learnt later, the
// stage and the GPU, are labels of ebbtide_rank_info, to be joined on (instance, job_id, rank): a
// series whose labels change would be another series.
//
// Thread rule: every function may be called from any thread. set(), add() and the like are
// lock-free on cached children; raiseTo() of a counter by one thread at a time. What sets labels
// takes a lock, for as long as it copies them: for what changes now and then. render() touches no
// allocator or device lock.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "ebbtide/metrics/exposition_format.hpp"
#include "ebbtide/metrics/series.hpp"

namespace ebbtide::metrics {

struct RankLabels {
  int rank = 0;
  int local_rank = 0;
  std::string job_id = {};  // empty: no label
};

class RankMetrics {
 public:
  explicit RankMetrics(const RankLabels& labels);
  ~RankMetrics();
  RankMetrics(const RankMetrics&) = delete;
  RankMetrics& operator=(const RankMetrics&) = delete;

  void setRank(const RankLabels& labels) noexcept;  // it turns out to be another one
  void set(Gauge gauge, double value) noexcept;
  void setBytes(Gauge gauge, std::int64_t bytes) noexcept;  // INT64_MAX, no limit, is +Inf
  void setBudgetBytes(std::int64_t bytes) noexcept { setBytes(Gauge::kBudgetBytes, bytes); }

  void add(Counter counter, double amount) noexcept;     // negative amounts are ignored
  void raiseTo(Counter counter, double total) noexcept;  // of what somebody else counts
  void addStep(double seconds) noexcept;                 // ebbtide_step_duration_seconds

  // ebbtide_op_recompute_seconds_total, by RecomputedOps' numbers; the replay counts once more in
  // kRecomputedOps and kRecomputeSeconds.
  std::size_t opNumber(const std::string& op) noexcept;
  void addReplay(std::size_t op_number, std::int64_t duration_ns) noexcept;
  void expectReplays(const std::vector<std::string>& ops) noexcept;  // before they are, at 0
  void noteStepEnd() noexcept;

  // Infos: series of value 1. Where memory is short they stay as they are.
  void setBuild(const std::string& version, const std::string& torch_version) noexcept;
  void setStages(const std::vector<std::int32_t>& stages) noexcept;
  void setGpu(int index, const std::string& uuid) noexcept;
  void setPlan(const std::string& planner, bool feasible) noexcept;  // empty: none is in force

  std::string render(Format format = Format::kText) const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace ebbtide::metrics
