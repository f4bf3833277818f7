#include "planners/baselines/dtr_planner.hpp"

#include <algorithm>

#include "model/planner_options.hpp"
#include "search/replay_machine.hpp"

namespace ebbtide::scheduler {
namespace {

constexpr std::size_t kMostRunsPerOp = 10;

// Values compared for one eviction; of more every second, every third and so on. The authors take a
// random sample of the square root of all (appendix E).
constexpr std::size_t kMostCompared = 256;

// Evicted values that touch each other, and what it takes to make them all: the paper's e*, section
// 4.1 and appendix C. A value that is made again leaves its set, which otherwise stays as it is.
class EvictedSets {
 public:
  explicit EvictedSets(std::size_t values) : set_(values, kNone) {}

  bool evicted(ValueId value) const { return set_[value] != kNone; }
  Nanoseconds cost(ValueId value) const { return cost_[root(set_[value])]; }
  std::int32_t set(ValueId value) const { return root(set_[value]); }

  void evict(ValueId value, Nanoseconds cost) {
    set_[value] = static_cast<std::int32_t>(parent_.size());
    parent_.push_back(set_[value]);
    cost_.push_back(cost);
  }
  void join(ValueId one, ValueId other) {
    const std::int32_t a = root(set_[one]), b = root(set_[other]);
    if (a == b) return;
    parent_[b] = a;
    cost_[a] += cost_[b];
  }
  void restore(ValueId value, Nanoseconds cost) {
    cost_[root(set_[value])] -= cost;
    set_[value] = kNone;
  }

 private:
  std::int32_t root(std::int32_t set) const {
    while (parent_[set] != set) set = parent_[set] = parent_[parent_[set]];
    return set;
  }

  std::vector<std::int32_t> set_;             // per value, kNone: not evicted
  mutable std::vector<std::int32_t> parent_;  // per set
  std::vector<Nanoseconds> cost_;             // per root
};

class Runtime {
 public:
  Runtime(const Graph& graph, Bytes limit, const WorkLimit& work)
      : graph_(graph),
        limit_(limit),
        work_(work),
        machine_(graph),
        sets_(graph.values.size()),
        readers_(graph.values.size()),
        touched_(graph.values.size(), 0),
        locks_(graph.values.size(), 0),
        references_end_(graph.values.size(), kNone),
        released_at_(graph.ops.size()),
        is_resident_(graph.values.size(), false) {
    for (std::size_t id = 0; id < graph.ops.size(); ++id) {
      for (ValueId input : graph.ops[id].inputs) {
        references_end_[input] = static_cast<OpId>(id);
        readers_[input].push_back(static_cast<OpId>(id));
      }
      for (ValueId output : graph.ops[id].outputs) references_end_[output] = static_cast<OpId>(id);
    }
    for (std::size_t id = 0; id < graph.values.size(); ++id) {
      const OpId end = references_end_[id];
      if (end != kNone) released_at_[end].push_back(static_cast<ValueId>(id));
    }
  }

  Schedule run() {
    for (std::size_t id = 0; id < graph_.ops.size(); ++id) {
      execute(static_cast<OpId>(id));
      // Eager eviction of what the program refers to no more.
      for (ValueId value : released_at_[id]) evict(value);
    }
    return machine_.finish();
  }

 private:
  // Runs the op after replays of what it lacks, the inputs of all ops under way locked.
  void execute(OpId op) {
    begin(op);
    while (!under_way_.empty()) {
      const OpId top = under_way_.back();
      const auto& inputs = graph_.ops[top].inputs;
      const auto lacking = std::find_if(inputs.begin(), inputs.end(),
                                        [&](ValueId input) { return machine_.lacks(top, input); });
      if (lacking != inputs.end()) {
        begin(graph_.values[*lacking].producer);
        continue;
      }
      makeRoom(top);
      machine_.run(top);
      clock_ += graph_.ops[top].duration_ns;
      for (ValueId input : inputs) {
        --locks_[input];
        touched_[input] = clock_;
      }
      for (ValueId output : graph_.ops[top].outputs) born(output);
      under_way_.pop_back();
    }
  }

  void begin(OpId op) {
    under_way_.push_back(op);
    for (ValueId input : graph_.ops[op].inputs) ++locks_[input];
  }

  void born(ValueId value) {
    touched_[value] = clock_;
    if (sets_.evicted(value)) sets_.restore(value, cost(value));
    if (!is_resident_[value]) resident_.push_back(value);
    is_resident_[value] = true;
  }

  Nanoseconds cost(ValueId value) const {
    return graph_.ops[graph_.values[value].producer].duration_ns;
  }

  template <typename Visit>
  void forNeighbours(ValueId value, Visit visit) const {
    for (ValueId input : graph_.ops[graph_.values[value].producer].inputs) {
      if (sets_.evicted(input)) visit(input);
    }
    for (OpId reader : readers_[value]) {
      for (ValueId output : graph_.ops[reader].outputs) {
        if (sets_.evicted(output)) visit(output);
      }
    }
  }

  void evict(ValueId value) {
    if (!machine_.mayForget(value)) return;
    machine_.forget(value);
    sets_.evict(value, cost(value));
    forNeighbours(value, [&](ValueId other) { sets_.join(value, other); });
  }

  // Lower: evicted before. Cost over bytes and staleness, the cost with that of evicted neighbours.
  double score(ValueId value) {
    Nanoseconds total = cost(value);
    seen_.clear();
    forNeighbours(value, [&](ValueId other) {
      const std::int32_t set = sets_.set(other);
      if (std::find(seen_.begin(), seen_.end(), set) != seen_.end()) return;
      seen_.push_back(set);
      total += sets_.cost(other);
    });
    return static_cast<double>(total + 1) / static_cast<double>(graph_.values[value].bytes) /
           static_cast<double>(clock_ - touched_[value] + 1);
  }

  void makeRoom(OpId op) {
    while (machine_.bytesToRun(op) > limit_) {
      if (machine_.runs() > work_.most_runs || work_.late()) return;
      const ValueId worst = leastScore();
      if (worst == kNone) return;
      evict(worst);
    }
  }

  ValueId leastScore() {
    ValueId best = kNone;
    double least = 0;
    const std::size_t stride = resident_.size() / kMostCompared + 1;
    std::size_t i = stride > 1 ? offset_++ % stride : 0;
    while (i < resident_.size()) {
      const ValueId value = resident_[i];
      if (!machine_.hasCopy(value)) {
        is_resident_[value] = false;
        resident_[i] = resident_.back();
        resident_.pop_back();
        continue;
      }
      i += stride;
      // What the program holds frees nothing.
      const bool frees = graph_.values[value].bytes > 0 && !machine_.programHolds(value);
      if (locks_[value] > 0 || !frees || !machine_.mayForget(value)) continue;
      const double here = score(value);
      if (best != kNone && (here > least || (here == least && value > best))) continue;
      best = value;
      least = here;
    }
    return best;
  }

  const Graph& graph_;
  Bytes limit_;
  WorkLimit work_;
  ReplayMachine machine_;
  EvictedSets sets_;
  std::vector<std::vector<OpId>> readers_;
  std::vector<Nanoseconds> touched_;  // per value: when it was last read or made
  std::vector<int> locks_;            // per value: ops under way that read it
  std::vector<OpId> references_end_;
  std::vector<std::vector<ValueId>> released_at_;
  std::vector<ValueId> resident_;  // made values: each with a copy, and others
  std::vector<bool> is_resident_;
  std::size_t offset_ = 0;  // of the values compared
  std::vector<OpId> under_way_;
  std::vector<std::int32_t> seen_;
  Nanoseconds clock_ = 0;
};

}  // namespace

Schedule runWithEviction(const Graph& graph, Bytes limit_bytes, const WorkLimit& work) {
  return Runtime(graph, limit_bytes, work).run();
}

PlannerInfo DtrPlanner::info() const {
  return {"dtr", "Kirisame and others, ICLR 2021, section 4: h_DTR-eq",
          "The online heuristic in program order, where the budget allows it; no bound."};
}

PlanResult DtrPlanner::plan(const Graph& graph, Bytes budget_bytes,
                            const PlannerOptions& options) const {
  rejectUnknownOptions(options, info());
  PlanChoice choice(graph, budget_bytes, options, info().name);
  const WorkLimit work{kMostRunsPerOp * graph.ops.size(), options};
  choice.searchLimits([&](Bytes limit) { return runWithEviction(graph, limit, work); });
  return choice.take();
}

}  // namespace ebbtide::scheduler
