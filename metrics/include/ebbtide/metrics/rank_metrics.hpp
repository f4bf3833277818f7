// RankMetrics: the series of one rank, in a prometheus-cpp registry.
//
// Thread rule: every function may be called from any thread. Setters are lock-free on cached child
// references, except addStep(), which takes the histogram's own lock. render() touches no allocator
// or device lock.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

namespace ebbtide::metrics {

struct RankLabels {
  int rank = 0;
  int local_rank = 0;
};

class RankMetrics {
 public:
  explicit RankMetrics(const RankLabels& labels);
  ~RankMetrics();
  RankMetrics(const RankMetrics&) = delete;
  RankMetrics& operator=(const RankMetrics&) = delete;

  // Gauges; INT64_MAX, a budget that does not limit, is exported as +Inf.
  void setBudgetBytes(std::int64_t bytes) noexcept;  // ebbtide_memory_budget_bytes
  // ebbtide_memory_peak_bytes, the largest since the process started
  void setPeakBytes(std::int64_t bytes) noexcept;
  void setAllocatedBytes(std::int64_t bytes) noexcept;      // ebbtide_memory_allocated_bytes
  void setMappedBytes(std::int64_t bytes) noexcept;         // ebbtide_memory_mapped_bytes
  void setPredictedPeakBytes(std::int64_t bytes) noexcept;  // ebbtide_plan_predicted_peak_bytes

  // Counters; negative amounts are ignored.
  // ebbtide_recomputed_ops_total and ebbtide_recompute_seconds_total
  void addRecomputed(std::int64_t ops, double seconds) noexcept;
  void addSpilledBytes(std::int64_t bytes) noexcept;      // ebbtide_spilled_bytes_total
  void addOffloadedBytes(std::int64_t bytes) noexcept;    // ebbtide_offloaded_bytes_total
  void addBudgetViolations(std::int64_t count) noexcept;  // ebbtide_budget_violations_total

  void addStep(double seconds) noexcept;  // ebbtide_step_duration_seconds, a histogram

  std::string render() const;  // Prometheus text format 0.0.4

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace ebbtide::metrics
