#include "search/retention_search.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "ebbtide/scheduler/simulator.hpp"
#include "search/plan_choice.hpp"
#include "search/retention_cut.hpp"
#include "search/value_classes.hpp"

namespace ebbtide::scheduler {
namespace {

// Steps simulated by one search object before it stops improving: some 30 seconds.
constexpr std::int64_t kMostWork = 2'000'000'000;

constexpr int kPricesTried = 18;

}  // namespace

RetentionSearch::RetentionSearch(const Graph& graph, Bytes budget_bytes,
                                 const PlannerOptions& options)
    : graph_(graph),
      budget_(budget_bytes),
      end_(options),
      random_(options.seed),
      builder_(graph),
      costs_(graph, builder_) {
  findPhases();
  for (std::size_t id = 0; id < graph.values.size(); ++id) {
    const ValueId value = static_cast<ValueId>(id);
    if (builder_.droppable(value) && wantedByEvents(value)) movable_.push_back(value);
  }
  classes_ = valueClasses(graph, movable_);
}

void RetentionSearch::findPhases() {
  phase_end_.resize(graph_.ops.size());
  std::iota(phase_end_.begin(), phase_end_.end(), 1);
  for (const ForwardPhase& phase : forwardPhases(graph_)) {
    bool saves = false;
    for (std::size_t id = phase.begin; id < phase.end; ++id) {
      phase_end_[id] = static_cast<OpId>(phase.end);
      for (ValueId output : graph_.ops[id].outputs) saves = saves || wantedByEvents(output);
    }
    if (saves) phases_.push_back(phase);
  }
}

bool RetentionSearch::wantedByEvents(ValueId value) const {
  const OpId producer = graph_.values[value].producer;
  return producer != kNone && builder_.lastNeed(value) >= phase_end_[producer];
}

bool RetentionSearch::late() const {
  return work_ >= kMostWork || end_.reached();
}

ScoredRetention RetentionSearch::score(Retention retention) {
  const Schedule schedule = builder_.build(retention);
  const Simulation simulation = simulate(graph_, schedule);
  work_ += static_cast<std::int64_t>(schedule.steps.size() + graph_.ops.size());
  return {std::move(retention), simulation.peak_bytes, simulation.recompute_ns, simulation.peak_op};
}

bool RetentionSearch::better(const ScoredRetention& a, const ScoredRetention& b) const {
  return PlanCost{feasible(a), a.peak_bytes, a.recompute_ns} <
         PlanCost{feasible(b), b.peak_bytes, b.recompute_ns};
}

Retention RetentionSearch::segmentSeed(std::size_t segments) const {
  Retention retention;
  retention.keep.assign(graph_.values.size(), false);
  retention.memo.assign(graph_.values.size(), true);
  for (const ForwardPhase& phase : phases_) keepAtCuts(phase, segments, retention);
  return retention;
}

void RetentionSearch::keepAtCuts(const ForwardPhase& phase, std::size_t segments,
                                 Retention& retention) const {
  // Bytes that cross the gap after each op for the sake of later ops of the phase.
  const std::size_t ops = phase.size();
  std::vector<Bytes> change(ops + 1, 0), saved(ops + 1, 0);
  std::vector<OpId> last_forward(graph_.values.size(), kNone);  // as offset in the phase
  for (std::size_t id = 0; id < ops; ++id) {
    for (ValueId input : graph_.ops[phase.begin + id].inputs) {
      last_forward[input] = static_cast<OpId>(id);
    }
  }
  std::vector<std::pair<ValueId, OpId>> members;  // with the offsets of their producers
  for (ValueId value : movable_) {
    const Value& v = graph_.values[value];
    if (!phase.holds(v.producer)) continue;
    const std::size_t offset = static_cast<std::size_t>(v.producer) - phase.begin;
    if (builder_.readByEvents(value)) saved[offset] += v.bytes;
    if (last_forward[value] == kNone) continue;
    members.emplace_back(value, static_cast<OpId>(offset));
    change[offset] += v.bytes;
    change[last_forward[value]] -= v.bytes;
  }
  std::partial_sum(change.begin(), change.end(), change.begin());
  std::partial_sum(saved.begin(), saved.end(), saved.begin());
  const double segment = static_cast<double>(saved[ops]) / static_cast<double>(segments);
  for (std::size_t cut = 1; cut < segments; ++cut) {
    // The narrowest gap within a quarter segment of the even cut.
    const auto at = [&](double share) {
      const Bytes level = static_cast<Bytes>(segment * (static_cast<double>(cut) + share));
      return std::lower_bound(saved.begin(), saved.end(), level) - saved.begin();
    };
    const auto most = static_cast<std::ptrdiff_t>(ops);
    const auto from = change.begin() + std::min<std::ptrdiff_t>(at(-0.25), most);
    const auto to = change.begin() + std::min<std::ptrdiff_t>(at(0.25) + 1, most + 1);
    const OpId gap = static_cast<OpId>(std::min_element(from, to) - change.begin());
    for (const auto& [value, offset] : members) {
      if (offset <= gap && last_forward[value] > gap) retention.keep[value] = true;
    }
  }
}

ScoredRetention RetentionSearch::searchPrices(const std::vector<bool>& free) {
  // Nanoseconds per byte, as a logarithm: from "keep all" to "keep nothing" for any sizes seen in
  // practice.
  double low = std::log(1e-7), high = std::log(1e3);
  ScoredRetention best = score(retentionAtPrice(graph_, builder_, std::exp(high), free));
  for (int i = 0; i < kPricesTried && !late(); ++i) {
    const double middle = (low + high) / 2;
    ScoredRetention scored = score(retentionAtPrice(graph_, builder_, std::exp(middle), free));
    (feasible(scored) ? high : low) = middle;
    if (better(scored, best)) best = std::move(scored);
  }
  return best;
}

bool RetentionSearch::acceptable(const ScoredRetention& next, const ScoredRetention& now,
                                 double slack) const {
  if (feasible(next) != feasible(now)) return feasible(next);
  if (!feasible(next)) {
    return static_cast<double>(next.peak_bytes) <=
           static_cast<double>(now.peak_bytes) * (1 + slack);
  }
  return static_cast<double>(next.recompute_ns) <=
         static_cast<double>(now.recompute_ns) * (1 + slack);
}

ScoredRetention RetentionSearch::walk(
    ScoredRetention start, const Effort& effort,
    const std::function<ScoredRetention(const Retention&)>& move) {
  ScoredRetention best = start;
  ScoredRetention now = std::move(start);
  const std::int64_t begin = work_;
  for (std::size_t moves = 0; !movable_.empty() && !late(); ++moves) {
    const double done =
        std::max(static_cast<double>(work_ - begin) / static_cast<double>(effort.work),
                 static_cast<double>(moves) / static_cast<double>(effort.moves));
    const bool spent = !(done < 1);  // of no work at all 0 / 0 is done
    if (spent || (feasible(best) && best.recompute_ns == 0)) break;
    ScoredRetention next = move(now.retention);
    if (!acceptable(next, now, effort.slack * (1 - done))) continue;
    now = std::move(next);
    if (better(now, best)) best = now;
  }
  return best;
}

PlanResult RetentionSearch::result(const ScoredRetention& scored, const std::string& planner) {
  return judgedPlan(graph_, budget_, builder_.build(scored.retention), planner);
}

}  // namespace ebbtide::scheduler
