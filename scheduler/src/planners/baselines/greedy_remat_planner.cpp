#include "planners/baselines/greedy_remat_planner.hpp"

#include <algorithm>
#include <queue>
#include <utility>

#include "model/planner_options.hpp"
#include "search/replay_machine.hpp"

namespace ebbtide::scheduler {
namespace {

constexpr std::size_t kMostRunsPerOp = 20;
constexpr Bytes kShares = 16;

// What the pass takes to be live at an op: first copies that a later op of the program reads, and
// inputs of what is to be made again, up to then. The bytes in use are these and those that the
// program holds.
class Pass {
 public:
  Pass(const Graph& graph, Bytes limit, const WorkLimit& work)
      : graph_(graph),
        limit_(limit),
        work_(work),
        machine_(graph),
        readers_(graph.values.size()),
        live_until_(graph.values.size(), kNone),
        expiring_(graph.ops.size() + 1),
        live_(graph.values.size(), false) {
    for (std::size_t id = 0; id < graph.ops.size(); ++id) {
      for (ValueId input : graph.ops[id].inputs) {
        readers_[input].push_back(static_cast<OpId>(id));
      }
    }
    for (std::size_t id = 0; id < graph.values.size(); ++id) {
      if (graph.values[id].producer == kNone) begin(static_cast<ValueId>(id));
    }
  }

  Schedule run() {
    for (std::size_t id = 0; id < graph_.ops.size(); ++id) {
      const OpId op = static_cast<OpId>(id);
      for (ValueId input : graph_.ops[id].inputs) makeAgain(input, op);
      while (liveBytes(op) > limit_ && !atWorkLimit() && rematerializeOne(op)) {
      }
      for (ValueId value : waiting_) propose(value);
      waiting_.clear();
      machine_.run(op);
      for (ValueId input : graph_.ops[id].inputs) {
        if (machine_.forwardNeed(input) == op) propose(input);
      }
      for (ValueId output : graph_.ops[id].outputs) begin(output);
      for (ValueId value : expiring_[id]) {
        if (live_until_[value] <= op) setLive(value, false);
      }
    }
    return machine_.finish();
  }

 private:
  void setLive(ValueId value, bool live) {
    if (graph_.values[value].pinned || live_[value] == live) return;
    live_[value] = live;
    bytes_ += live ? graph_.values[value].bytes : -graph_.values[value].bytes;
    if (!live) return;
    // What is made from it frees more now.
    propose(value);
    for (OpId reader : readers_[value]) {
      for (ValueId output : graph_.ops[reader].outputs) propose(output);
    }
  }

  bool atWorkLimit() const { return machine_.runs() > work_.most_runs || work_.late(); }

  void propose(ValueId value) {
    if (live_[value] && machine_.mayForget(value)) candidates_.emplace(gain(value), -value);
  }

  void liveUntil(ValueId value, OpId until) {
    if (until <= live_until_[value] && live_[value]) return;
    live_until_[value] = std::max(live_until_[value], until);
    expiring_[live_until_[value]].push_back(value);
    setLive(value, true);
  }

  void begin(ValueId value) {
    if (!readers_[value].empty()) liveUntil(value, readers_[value].back());
  }

  // Its inputs were kept, or are made again too.
  void makeAgain(ValueId value, OpId reader) {
    if (machine_.lacks(reader, value)) begin(value);
  }

  Bytes liveBytes(OpId op) const {
    Bytes bytes = bytes_ + graph_.ops[op].fixed_bytes;
    for (ValueId output : graph_.ops[op].outputs) {
      if (!graph_.values[output].pinned) bytes += graph_.values[output].bytes;
    }
    return bytes;
  }

  OpId nextReader(ValueId value, OpId after) const {
    const auto& readers = readers_[value];
    const auto next = std::upper_bound(readers.begin(), readers.end(), after);
    return next == readers.end() ? kNone : *next;
  }

  // Bytes that it frees now, less inputs that live on for it.
  Bytes gain(ValueId value) const {
    Bytes bytes = graph_.values[value].bytes;
    for (ValueId input : graph_.ops[graph_.values[value].producer].inputs) {
      if (!live_[input] && !graph_.values[input].pinned) bytes -= graph_.values[input].bytes;
    }
    return bytes;
  }

  // Of the live values the one of largest gain that may be freed now.
  ValueId takeBest(OpId op) {
    const auto& now = graph_.ops[op].inputs;
    while (!candidates_.empty()) {
      const auto [promised, negated] = candidates_.top();
      const ValueId value = -negated;
      if (promised <= 0) return kNone;
      candidates_.pop();
      if (!live_[value] || !machine_.mayForget(value)) continue;
      const Bytes here = gain(value);
      if (here != promised) {
        if (here < promised) candidates_.emplace(here, -value);
        continue;  // of a larger gain there is another entry
      }
      const bool read_now = std::find(now.begin(), now.end(), value) != now.end();
      if (nextReader(value, op) == kNone) continue;
      if (!read_now && graph_.values[value].last_reference < op) return value;
      waiting_.push_back(value);
    }
    return kNone;
  }

  bool rematerializeOne(OpId op) {
    const ValueId best = takeBest(op);
    if (best == kNone) return false;
    const OpId reader = nextReader(best, op);
    machine_.forget(best);
    live_until_[best] = kNone;
    setLive(best, false);
    for (ValueId input : graph_.ops[graph_.values[best].producer].inputs) {
      if (machine_.hasCopy(input)) liveUntil(input, reader);
    }
    return true;
  }

  const Graph& graph_;
  Bytes limit_;
  WorkLimit work_;
  ReplayMachine machine_;
  std::vector<std::vector<OpId>> readers_;  // per value, in program order
  std::vector<OpId> live_until_;
  std::vector<std::vector<ValueId>> expiring_;  // per op: may be live until there
  std::vector<bool> live_;
  Bytes bytes_ = 0;  // of the live ones
  // Gain when proposed, value negated: among equals the first made.
  std::priority_queue<std::pair<Bytes, ValueId>> candidates_;
  std::vector<ValueId> waiting_;  // may be freed at a later op
};

}  // namespace

Schedule rematerializeGreedily(const Graph& graph, Bytes limit_bytes, const WorkLimit& work) {
  return Pass(graph, limit_bytes, work).run();
}

PlannerInfo GreedyRematPlanner::info() const {
  return {"greedy-remat", "kumar2019 section 4, after XLA's pass",
          "One pass in program order under a limit; no bound."};
}

PlanResult GreedyRematPlanner::plan(const Graph& graph, Bytes budget_bytes,
                                    const PlannerOptions& options) const {
  rejectUnknownOptions(options, info());
  PlanChoice choice(graph, budget_bytes, options, info().name);
  const WorkLimit work{kMostRunsPerOp * graph.ops.size(), options};
  choice.searchLimits([&](Bytes limit) { return rematerializeGreedily(graph, limit, work); });
  // The smallest peak may come from a limit that is not met.
  for (Bytes share = kShares; share-- > 0 && !choice.feasible() && !choice.late();) {
    choice.consider(rematerializeGreedily(graph, choice.keepPeak() / kShares * share, work));
  }
  return choice.take();
}

}  // namespace ebbtide::scheduler
