#include "ebbtide/metrics/rank_metrics.hpp"

#include <prometheus/counter.h>
#include <prometheus/gauge.h>
#include <prometheus/histogram.h>
#include <prometheus/registry.h>
#include <prometheus/text_serializer.h>

#include <limits>

namespace ebbtide::metrics {
namespace {

// Prometheus writes "no limit" as +Inf.
double gaugeBytes(std::int64_t bytes) noexcept {
  return bytes == std::numeric_limits<std::int64_t>::max() ? std::numeric_limits<double>::infinity()
                                                           : static_cast<double>(bytes);
}

// Seconds, about three to a decade: from a toy model's step to one that recomputes and spills a
// lot.
prometheus::Histogram::BucketBoundaries stepBuckets() {
  return {0.01, 0.03, 0.1, 0.3, 1, 3, 10, 30, 100, 300};
}

}  // namespace

// Every family has one child, made here once: Family::Add locks and hashes, the children do not.
struct RankMetrics::Impl {
  explicit Impl(const RankLabels& rank_labels)
      : labels{{"rank", std::to_string(rank_labels.rank)},
               {"local_rank", std::to_string(rank_labels.local_rank)}} {}

  prometheus::Gauge& gauge(const char* name, const char* help) {
    return prometheus::BuildGauge().Name(name).Help(help).Register(registry).Add(labels);
  }
  prometheus::Counter& counter(const char* name, const char* help) {
    return prometheus::BuildCounter().Name(name).Help(help).Register(registry).Add(labels);
  }
  prometheus::Histogram& histogram(const char* name, const char* help) {
    return prometheus::BuildHistogram().Name(name).Help(help).Register(registry).Add(labels,
                                                                                     stepBuckets());
  }

  const prometheus::Labels labels;
  prometheus::Registry registry;

  prometheus::Gauge& budget =
      gauge("ebbtide_memory_budget_bytes", "Memory budget of this rank; +Inf if there is none.");
  prometheus::Gauge& peak = gauge("ebbtide_memory_peak_bytes",
                                  "Largest number of allocated bytes since the process started.");
  prometheus::Gauge& allocated =
      gauge("ebbtide_memory_allocated_bytes", "Bytes in live blocks of the allocator.");
  prometheus::Gauge& mapped =
      gauge("ebbtide_memory_mapped_bytes",
            "Bytes mapped from the system: live blocks, cached blocks and slack.");
  prometheus::Gauge& predicted_peak =
      gauge("ebbtide_plan_predicted_peak_bytes", "Peak that the plan in force predicts.");
  prometheus::Counter& recomputed_ops =
      counter("ebbtide_recomputed_ops_total", "Operators run again to save memory.");
  prometheus::Counter& recompute_seconds =
      counter("ebbtide_recompute_seconds_total", "Time spent running operators again.");
  prometheus::Counter& spilled_bytes =
      counter("ebbtide_spilled_bytes_total",
              "Bytes written to the host because memory was short, beside any plan.");
  prometheus::Counter& offloaded_bytes =
      counter("ebbtide_offloaded_bytes_total", "Bytes written to the host by plans.");
  prometheus::Counter& budget_violations =
      counter("ebbtide_budget_violations_total",
              "Allocations that were let over the budget because nothing could be freed.");
  prometheus::Histogram& step_duration =
      histogram("ebbtide_step_duration_seconds", "Duration of a training step.");
};

RankMetrics::RankMetrics(const RankLabels& labels) : impl_(std::make_unique<Impl>(labels)) {}

RankMetrics::~RankMetrics() = default;

void RankMetrics::setBudgetBytes(std::int64_t bytes) noexcept {
  impl_->budget.Set(gaugeBytes(bytes));
}

void RankMetrics::setPeakBytes(std::int64_t bytes) noexcept {
  impl_->peak.Set(gaugeBytes(bytes));
}

void RankMetrics::setAllocatedBytes(std::int64_t bytes) noexcept {
  impl_->allocated.Set(gaugeBytes(bytes));
}

void RankMetrics::setMappedBytes(std::int64_t bytes) noexcept {
  impl_->mapped.Set(gaugeBytes(bytes));
}

void RankMetrics::setPredictedPeakBytes(std::int64_t bytes) noexcept {
  impl_->predicted_peak.Set(gaugeBytes(bytes));
}

void RankMetrics::addRecomputed(std::int64_t ops, double seconds) noexcept {
  impl_->recomputed_ops.Increment(static_cast<double>(ops));
  impl_->recompute_seconds.Increment(seconds);
}

void RankMetrics::addSpilledBytes(std::int64_t bytes) noexcept {
  impl_->spilled_bytes.Increment(static_cast<double>(bytes));
}

void RankMetrics::addOffloadedBytes(std::int64_t bytes) noexcept {
  impl_->offloaded_bytes.Increment(static_cast<double>(bytes));
}

void RankMetrics::addBudgetViolations(std::int64_t count) noexcept {
  impl_->budget_violations.Increment(static_cast<double>(count));
}

void RankMetrics::addStep(double seconds) noexcept {
  impl_->step_duration.Observe(seconds);
}

std::string RankMetrics::render() const {
  return prometheus::TextSerializer().Serialize(impl_->registry.Collect());
}

}  // namespace ebbtide::metrics
