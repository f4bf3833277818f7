#include "ebbtide/metrics/rank_metrics.hpp"

#include <prometheus/counter.h>
#include <prometheus/gauge.h>
#include <prometheus/registry.h>

#include <array>
#include <exception>
#include <limits>
#include <map>
#include <mutex>
#include <utility>

#include "ebbtide/metrics/recomputed_ops.hpp"
#include "exposition.hpp"
#include "step_histogram.hpp"

namespace ebbtide::metrics {
namespace {

using prometheus::ClientMetric;
using prometheus::MetricFamily;
using prometheus::MetricType;
using Labels = std::map<std::string, std::string>;

Labels commonLabels(const RankLabels& of) {
  Labels labels{{"rank", std::to_string(of.rank)}, {"local_rank", std::to_string(of.local_rank)}};
  if (!of.job_id.empty()) labels["job_id"] = of.job_id;
  return labels;
}

// Sorted, as the registry's.
ClientMetric childOf(Labels labels, const Labels& more = {}) {
  ClientMetric child;
  labels.insert(more.begin(), more.end());
  for (const auto& [name, value] : labels) child.label.push_back({name, value});
  return child;
}

std::string joined(const std::vector<std::int32_t>& numbers) {
  std::string text;
  for (const std::int32_t number : numbers)
    text += (text.empty() ? "" : ",") + std::to_string(number);
  return text;
}

}  // namespace

struct RankMetrics::Impl {
  // Every family has one child, made here once: Family::Add locks and hashes, the children do not.
  // They get their labels when they are rendered.
  explicit Impl(const RankLabels& rank_labels) : labels(commonLabels(rank_labels)) {
    for (std::size_t i = 0; i < kGauges; ++i) {
      const SeriesText& text = textOf(static_cast<Gauge>(i));
      gauges[i] =
          &prometheus::BuildGauge().Name(text.name).Help(text.help).Register(registry).Add({});
      if (startsUnknown(static_cast<Gauge>(i)))
        gauges[i]->Set(std::numeric_limits<double>::quiet_NaN());
    }
    for (std::size_t i = 0; i < kCounters; ++i) {
      const SeriesText& text = textOf(static_cast<Counter>(i));
      counters[i] =
          &prometheus::BuildCounter().Name(text.name).Help(text.help).Register(registry).Add({});
    }
  }

  prometheus::Gauge& of(Gauge gauge) noexcept { return *gauges[static_cast<std::size_t>(gauge)]; }
  prometheus::Counter& of(Counter counter) noexcept {
    return *counters[static_cast<std::size_t>(counter)];
  }

  // Labels of an info, from now on.
  void change(Labels& info, Labels changed) noexcept {
    const std::lock_guard lock(mutex);
    std::swap(info, changed);
  }

  MetricFamily info(const char* name, const char* help, const Labels& more) const {
    MetricFamily family{name, help, MetricType::Gauge, {childOf(labels, more)}};
    family.metric.front().gauge.value = 1;
    return family;
  }
  MetricFamily stepFamily() const {
    MetricFamily family{"ebbtide_step_duration_seconds",
                        "Duration of a training step.",
                        MetricType::Histogram,
                        {childOf(labels)}};
    family.metric.front().histogram = steps.collect();
    return family;
  }
  MetricFamily opFamily() const {
    MetricFamily family{"ebbtide_op_recompute_seconds_total",
                        "Time spent running an operator again: at most 20 by name, the rest is "
                        "other.",
                        MetricType::Counter,
                        {}};
    for (const auto& [op, seconds] : ops.seconds()) {
      family.metric.push_back(childOf(labels, {{"op", op}}));
      family.metric.back().counter.value = seconds;
    }
    return family;
  }

  prometheus::Registry registry;
  std::array<prometheus::Gauge*, kGauges> gauges{};  // the registry's
  std::array<prometheus::Counter*, kCounters> counters{};
  StepHistogram steps;
  RecomputedOps ops;

  mutable std::mutex mutex;  // guards what is below
  Labels labels;             // of all series
  Labels build, rank, plan;  // of the infos; empty: there is none, but for the rank's
};

RankMetrics::RankMetrics(const RankLabels& labels) : impl_(std::make_unique<Impl>(labels)) {}

RankMetrics::~RankMetrics() = default;

void RankMetrics::setRank(const RankLabels& labels) noexcept try {
  impl_->change(impl_->labels, commonLabels(labels));
} catch (const std::exception&) {
}

void RankMetrics::set(Gauge gauge, double value) noexcept {
  impl_->of(gauge).Set(value);
}

void RankMetrics::setBytes(Gauge gauge, std::int64_t bytes) noexcept {
  const bool unlimited = bytes == std::numeric_limits<std::int64_t>::max();
  set(gauge, unlimited ? std::numeric_limits<double>::infinity() : static_cast<double>(bytes));
}

void RankMetrics::add(Counter counter, double amount) noexcept {
  impl_->of(counter).Increment(amount);
}

void RankMetrics::raiseTo(Counter counter, double total) noexcept {
  add(counter, total - impl_->of(counter).Value());
}

void RankMetrics::addStep(double seconds) noexcept {
  impl_->steps.observe(seconds);
}

std::size_t RankMetrics::opNumber(const std::string& op) noexcept {
  return impl_->ops.numberOf(op);
}

void RankMetrics::addReplay(std::size_t op_number, std::int64_t duration_ns) noexcept {
  impl_->ops.add(op_number, duration_ns);
  add(Counter::kRecomputedOps, 1);
  add(Counter::kRecomputeSeconds, static_cast<double>(duration_ns) * 1e-9);
}

void RankMetrics::expectReplays(const std::vector<std::string>& ops) noexcept {
  impl_->ops.expect(ops);
}

void RankMetrics::noteStepEnd() noexcept {
  impl_->ops.noteStepEnd();
}

void RankMetrics::setBuild(const std::string& version, const std::string& torch_version) noexcept
    try {
  impl_->change(impl_->build, {{"version", version}, {"torch_version", torch_version}});
} catch (const std::exception&) {
}

void RankMetrics::setStages(const std::vector<std::int32_t>& stages) noexcept try {
  const std::lock_guard lock(impl_->mutex);
  impl_->rank["stage"] = joined(stages);
} catch (const std::exception&) {
}

void RankMetrics::setGpu(int index, const std::string& uuid) noexcept try {
  const std::lock_guard lock(impl_->mutex);
  impl_->rank["gpu"] = std::to_string(index);
  impl_->rank["UUID"] = uuid;
} catch (const std::exception&) {
}

void RankMetrics::setPlan(const std::string& planner, bool feasible) noexcept try {
  Labels labels;
  if (!planner.empty()) labels = {{"planner", planner}, {"feasible", feasible ? "true" : "false"}};
  impl_->change(impl_->plan, std::move(labels));
} catch (const std::exception&) {
}

std::string RankMetrics::render(Format format) const {
  std::vector<MetricFamily> families = impl_->registry.Collect();
  {
    const std::lock_guard lock(impl_->mutex);
    for (MetricFamily& family : families) {
      for (ClientMetric& child : family.metric) child.label = childOf(impl_->labels).label;
    }
    families.push_back(impl_->stepFamily());
    families.push_back(impl_->opFamily());
    families.push_back(impl_->info(
        "ebbtide_rank_info",
        "What is known of the rank: to be joined on instance, job_id and rank.", impl_->rank));
    if (!impl_->build.empty())
      families.push_back(
          impl_->info("ebbtide_build_info", "Versions that this rank runs.", impl_->build));
    if (!impl_->plan.empty())
      families.push_back(impl_->info("ebbtide_plan_info", "The main program's plan.", impl_->plan));
  }
  return expose(families, format);
}

}  // namespace ebbtide::metrics
