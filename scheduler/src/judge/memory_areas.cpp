#include "ebbtide/scheduler/memory_areas.hpp"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "ebbtide/scheduler/simulator.hpp"

namespace ebbtide::scheduler {
namespace {

using Action = MemoryArea::Action;

// Every moment at which a run is at its most.
class Moments : public SimulationWatcher {
 public:
  void onLive(ValueId, Bytes) override {}
  void onLook(Nanoseconds at_ns, Bytes live_bytes) override {
    seen_.emplace_back(at_ns, live_bytes);
  }

  // Of each stretch the one with the most bytes, as indices.
  std::vector<std::size_t> largest(std::size_t points) const {
    std::vector<std::size_t> chosen;
    if (seen_.empty() || points == 0) return chosen;
    const std::size_t stretch = (seen_.size() + points - 1) / points;
    for (std::size_t begin = 0; begin < seen_.size(); begin += stretch) {
      const std::size_t end = std::min(seen_.size(), begin + stretch);
      std::size_t best = begin;
      for (std::size_t i = begin; i < end; ++i) {
        if (seen_[i].second > seen_[best].second) best = i;
      }
      chosen.push_back(best);
    }
    return chosen;
  }

 private:
  std::vector<std::pair<Nanoseconds, Bytes>> seen_;
};

// The same moments again, those chosen with what is live then by area.
class Sampler : public SimulationWatcher {
 public:
  Sampler(std::vector<std::size_t> area_of_value, std::size_t areas,
          std::vector<std::size_t> moments)
      : area_of_value_(std::move(area_of_value)),
        moments_(std::move(moments)),
        now_(areas, 0),
        bytes_(areas) {}

  void onLive(ValueId value, Bytes change) override {
    now_[area_of_value_[static_cast<std::size_t>(value)]] += change;
    values_bytes_ += change;
  }
  void onLook(Nanoseconds at_ns, Bytes live_bytes) override {
    if (next_ == moments_.size() || looks_++ != moments_[next_]) return;
    ++next_;
    at_ns_.push_back(at_ns);
    for (std::size_t area = 0; area < now_.size(); ++area) bytes_[area].push_back(now_[area]);
    base_bytes_.push_back(live_bytes - values_bytes_);
  }

  std::vector<Nanoseconds>& atNs() { return at_ns_; }
  std::vector<std::vector<Bytes>>& bytes() { return bytes_; }
  std::vector<Bytes>& baseBytes() { return base_bytes_; }

 private:
  const std::vector<std::size_t> area_of_value_;
  const std::vector<std::size_t> moments_;
  std::size_t looks_ = 0, next_ = 0;
  std::vector<Bytes> now_;
  Bytes values_bytes_ = 0;
  std::vector<Nanoseconds> at_ns_;
  std::vector<std::vector<Bytes>> bytes_;
  std::vector<Bytes> base_bytes_;
};

// What the schedule does with each value, and whose it is.
class Values {
 public:
  Values(const TraceGraph& step, const Schedule& schedule)
      : graph_(step.graph),
        label_of_(step.graph.values.size(), kNone),
        action_of_(step.graph.values.size(), Action::kKept) {
    for (std::size_t v = 0; v < label_of_.size(); ++v) label_of_[v] = graph_.values[v].producer;
    nameRestored(step);
    std::vector<bool> ran(graph_.ops.size(), false);
    for (const Step& one : schedule.steps) {
      if (one.kind != Step::Kind::kRun) continue;
      const auto op = static_cast<std::size_t>(one.id);
      if (ran[op]) noteReplay(step, op);
      ran[op] = true;
    }
  }

  using Key = std::pair<std::string, Action>;
  Key keyOf(std::size_t value) const {
    const OpId op = label_of_[value];
    return {op == kNone ? "inputs" : graph_.ops[static_cast<std::size_t>(op)].name,
            action_of_[value]};
  }

 private:
  // What a copy gives back is of the op that made it.
  void nameRestored(const TraceGraph& step) {
    for (std::size_t op = 0; op < step.restores.size(); ++op) {
      if (step.restores[op].value == kNone) continue;
      const auto copy = static_cast<std::size_t>(graph_.ops[op].inputs.front());
      for (const ValueId output : graph_.ops[op].outputs)
        label_of_[output] = graph_.values[copy].producer;
    }
  }

  void noteReplay(const TraceGraph& step, std::size_t op) {
    const bool restores = op < step.restores.size() && step.restores[op].value != kNone;
    if (!restores) {
      for (const ValueId output : graph_.ops[op].outputs) action_of_[output] = Action::kRecomputed;
      return;
    }
    const bool bits = step.restores[op].kind == CopyKind::kBits;
    const Action action = bits ? Action::kEncoded : Action::kOffloaded;
    for (const ValueId copy : graph_.ops[op].inputs) action_of_[copy] = action;
    for (const ValueId output : graph_.ops[op].outputs) action_of_[output] = action;
  }

  const Graph& graph_;
  std::vector<OpId> label_of_;
  std::vector<Action> action_of_;
};

Bytes largest(const std::vector<Bytes>& bytes) {
  return bytes.empty() ? 0 : *std::max_element(bytes.begin(), bytes.end());
}

// The labels with the largest area keep their names.
void fold(std::vector<MemoryArea>& areas, std::size_t labels) {
  std::map<std::string, Bytes> sizes;
  for (const MemoryArea& area : areas) sizes[area.label] += largest(area.live_bytes);
  std::vector<std::pair<Bytes, std::string>> order;
  for (const auto& [label, bytes] : sizes) order.emplace_back(bytes, label);
  std::sort(order.rbegin(), order.rend());
  std::set<std::string> named;
  for (std::size_t i = 0; i < std::min(labels, order.size()); ++i) named.insert(order[i].second);

  std::map<std::pair<std::string, Action>, MemoryArea> folded;
  for (MemoryArea& area : areas) {
    const std::string label = named.contains(area.label) ? area.label : "other";
    const auto [at, is_new] = folded.try_emplace({label, area.action}, std::move(area));
    at->second.label = label;
    if (is_new) continue;
    for (std::size_t i = 0; i < at->second.live_bytes.size(); ++i)
      at->second.live_bytes[i] += area.live_bytes[i];
  }
  areas.clear();
  for (auto& [key, area] : folded) areas.push_back(std::move(area));
  std::stable_sort(areas.begin(), areas.end(), [](const MemoryArea& a, const MemoryArea& b) {
    return largest(a.live_bytes) > largest(b.live_bytes);
  });
}

}  // namespace

const char* nameOf(MemoryArea::Action action) {
  switch (action) {
    case Action::kKept:
      return "kept";
    case Action::kRecomputed:
      return "recomputed";
    case Action::kOffloaded:
      return "offloaded";
    case Action::kEncoded:
      return "encoded";
    case Action::kBase:
      break;
  }
  return "base";
}

MemoryAreas memoryAreas(const TraceGraph& step, const Schedule& schedule,
                        const MemoryAreasOptions& options) {
  Moments moments;
  simulate(step.graph, schedule, &moments);

  const Values values(step, schedule);
  std::map<Values::Key, std::size_t> area_of_key;
  std::vector<std::size_t> area_of_value;
  std::vector<Values::Key> keys;
  for (std::size_t v = 0; v < step.graph.values.size(); ++v) {
    const auto [at, is_new] = area_of_key.try_emplace(values.keyOf(v), keys.size());
    if (is_new) keys.push_back(at->first);
    area_of_value.push_back(at->second);
  }
  Sampler sampler(std::move(area_of_value), keys.size(), moments.largest(options.points));
  simulate(step.graph, schedule, &sampler);

  MemoryAreas result{.at_ns = std::move(sampler.atNs()), .areas = {}};
  for (std::size_t area = 0; area < keys.size(); ++area) {
    if (largest(sampler.bytes()[area]) <= 0) continue;
    result.areas.push_back({keys[area].first, keys[area].second, std::move(sampler.bytes()[area])});
  }
  fold(result.areas, options.labels);
  result.areas.insert(result.areas.begin(),
                      {"base", Action::kBase, std::move(sampler.baseBytes())});
  return result;
}

}  // namespace ebbtide::scheduler
