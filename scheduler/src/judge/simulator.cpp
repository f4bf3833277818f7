// Bytes of one value at a time: a first copy, alive while the schedule or the program holds it, and
// at most one other copy, made by a replay or a fetch and held by the schedule alone.
//
//   steps:         run a .... drop v ........ run a (replay) .... drop v
//   first copy:    |=========|~~~~~~~~|                           = schedule, ~ program
//                                    last_reference
//   other copy:                               |==================|
#include "ebbtide/scheduler/simulator.hpp"

#include <algorithm>

namespace ebbtide::scheduler {
namespace {

struct State {
  bool held = false;  // by the schedule
  bool held_is_first = false;
  bool program_holds = false;
  bool saved_holds = false;  // saved tensors will, whatever the schedule drops
  bool on_host = false;      // offloaded and not fetched yet
  bool taken_over = false;   // its bytes already belong to the next epoch; a drop follows
};

// The values of each op by one of their op fields, as a compressed list.
class ValuesByOp {
 public:
  template <typename Field>
  ValuesByOp(const Graph& graph, Field field) : begin_(graph.ops.size() + 1, 0) {
    for (const Value& value : graph.values) {
      if (field(value) != kNone) ++begin_[field(value) + 1];
    }
    for (std::size_t i = 1; i < begin_.size(); ++i) begin_[i] += begin_[i - 1];
    ids_.resize(begin_.back());
    std::vector<std::size_t> next(begin_.begin(), begin_.end() - 1);
    for (std::size_t id = 0; id < graph.values.size(); ++id) {
      const OpId op = field(graph.values[id]);
      if (op != kNone) ids_[next[op]++] = static_cast<ValueId>(id);
    }
  }
  const ValueId* begin(OpId op) const { return ids_.data() + begin_[op]; }
  const ValueId* end(OpId op) const { return ids_.data() + begin_[op + 1]; }

 private:
  std::vector<std::size_t> begin_;
  std::vector<ValueId> ids_;
};

class Machine {
 public:
  Machine(const Graph& graph, const Schedule& schedule, SimulationWatcher* watcher)
      : graph_(graph),
        watcher_(watcher),
        steps_(schedule.steps),
        ran_(graph.ops.size(), false),
        state_(graph.values.size()),
        last_references_(graph, [](const Value& value) { return value.last_reference; }),
        overwritten_(graph, [](const Value& value) { return value.overwritten_by; }) {
    result_.live_bytes.assign(graph.ops.size(), 0);
    result_.run_bytes.reserve(graph.ops.size());
    for (std::size_t id = 0; id < graph.values.size(); ++id) {
      const Value& value = graph.values[id];
      if (value.producer != kNone) continue;
      State& state = state_[id];
      state.held = state.held_is_first = true;
      state.program_holds = value.last_reference != kNone;
      add(static_cast<ValueId>(id));
    }
    if (graph.keepsGraphs()) noteSaved();
    last_touch_.assign(graph.values.size(), 0);
    for (std::size_t i = 0; i < steps_.size(); ++i) {
      if (steps_[i].kind != Step::Kind::kRun) {
        last_touch_[steps_[i].id] = i;
      } else {
        for (ValueId input : graph.ops[steps_[i].id].inputs) last_touch_[input] = i;
      }
    }
  }

  Simulation run() {
    for (step_ = 0; step_ < steps_.size(); ++step_) {
      const Step& step = steps_[step_];
      switch (step.kind) {
        case Step::Kind::kRun:
          ran_[step.id] ? replay(step.id) : firstRun(step.id);
          break;
        case Step::Kind::kFetch:
          state_[step.id].on_host = false;
          birth(step.id, false);
          observe(live_ + nextFixed());
          break;
        case Step::Kind::kDrop:
        case Step::Kind::kOffload:
          release(step.id);
          state_[step.id].on_host = step.kind == Step::Kind::kOffload;
          break;
      }
    }
    return std::move(result_);
  }

 private:
  // Until when saved tensors hold what is made again nowhere: their own values, and those that a
  // replay would read for what another one has saved.
  void noteSaved() {
    std::vector<bool> again(graph_.ops.size(), false);
    for (const Step& step : steps_) {
      if (step.kind != Step::Kind::kRun) continue;
      again[step.id] = ran_[step.id];
      ran_[step.id] = true;
    }
    ran_.assign(ran_.size(), false);
    std::vector<OpId> until;
    for (const Value& value : graph_.values) until.push_back(value.saved_last);
    for (std::size_t id = graph_.ops.size(); id-- > 0;) {
      if (!again[id]) continue;
      OpId asked_until = kNone;
      for (ValueId output : graph_.ops[id].outputs)
        asked_until = std::max(asked_until, until[output]);
      for (ValueId input : graph_.ops[id].inputs)
        until[input] = std::max(until[input], asked_until);
    }
    saved_until_.resize(graph_.ops.size());
    for (std::size_t id = 0; id < graph_.values.size(); ++id) {
      const Value& value = graph_.values[id];
      const bool made_again = value.producer != kNone && again[value.producer];
      if (until[id] == kNone || made_again || value.overwritten_by != kNone) continue;
      state_[id].saved_holds = true;
      saved_until_[until[id]].push_back(static_cast<ValueId>(id));
    }
  }

  Bytes bytes(ValueId id) const { return graph_.values[id].pinned ? 0 : graph_.values[id].bytes; }

  void add(ValueId id) { change(id, bytes(id)); }
  void remove(ValueId id) { change(id, -bytes(id)); }
  void change(ValueId id, Bytes by) {
    live_ += by;
    if (watcher_ != nullptr) watcher_->onLive(id, by);
  }

  Bytes nextFixed() const {
    if (graph_.ops.empty()) return 0;
    return graph_.ops[std::min<std::size_t>(next_, graph_.ops.size() - 1)].fixedAtStart();
  }

  void observe(Bytes now) {
    if (watcher_ != nullptr) watcher_->onLook(result_.duration_ns, now);
    if (!graph_.ops.empty()) {
      Bytes& op_peak =
          result_.live_bytes[std::min<std::size_t>(next_, result_.live_bytes.size() - 1)];
      op_peak = std::max(op_peak, now);
    }
    if (now <= result_.peak_bytes) return;
    result_.peak_bytes = now;
    result_.peak_step = step_;
    const bool first = steps_[step_].kind == Step::Kind::kRun && !ran_[steps_[step_].id];
    result_.peak_op = first ? steps_[step_].id : last_first_run_;
  }

  void birth(ValueId id, bool first) {
    State& state = state_[id];
    state.held = true;
    state.held_is_first = first;
    add(id);
  }

  void release(ValueId id) {
    State& state = state_[id];
    state.held = false;
    const bool stays = state.held_is_first && (state.program_holds || state.saved_holds);
    if (!stays && !state.taken_over) remove(id);
    state.taken_over = false;
  }

  void firstRun(OpId id) {
    const Op& op = graph_.ops[id];
    result_.duration_ns += op.duration_ns;
    for (ValueId output : op.outputs) {
      const Value& value = graph_.values[output];
      if (value.previous_epoch != kNone) endFirstCopy(value.previous_epoch);
      birth(output, true);
      state_[output].program_holds = value.last_reference >= id;
    }
    Bytes unmade = 0;
    for (ValueId output : op.outputs) {
      if (graph_.lazy_outputs && droppedNext(output)) unmade += bytes(output);
    }
    observe(live_ + op.fixed_bytes - unmade);
    result_.run_bytes.push_back(live_ + op.fixed_bytes - unmade);
    for (const ValueId* it = overwritten_.begin(id); it != overwritten_.end(id); ++it) {
      if (!takenOver(*it, op)) endFirstCopy(*it);
    }
    for (const ValueId* it = last_references_.begin(id); it != last_references_.end(id); ++it) {
      State& state = state_[*it];
      if (!state.program_holds) continue;
      state.program_holds = false;
      if (!state.saved_holds && !(state.held && state.held_is_first)) remove(*it);
    }
    if (!saved_until_.empty()) endSaved(saved_until_[id]);
    ran_[id] = true;
    last_first_run_ = id;
    ++next_;
  }

  void endSaved(const std::vector<ValueId>& values) {
    for (ValueId value : values) {
      State& state = state_[value];
      state.saved_holds = false;
      if (!state.program_holds && !(state.held && state.held_is_first)) remove(value);
    }
  }

  // Did an output take the bytes over when the op began? Then its first copy is ended already.
  bool takenOver(ValueId id, const Op& op) const {
    return std::any_of(op.outputs.begin(), op.outputs.end(),
                       [&](ValueId output) { return graph_.values[output].previous_epoch == id; });
  }

  // The program writes over its copy of a value: the first one, else the one that the schedule
  // holds.
  void endFirstCopy(ValueId id) {
    State& state = state_[id];
    const bool first_alive = state.program_holds || (state.held && state.held_is_first);
    const bool apart = state.program_holds && state.held && !state.held_is_first;
    if (first_alive || state.held) remove(id);
    state.program_holds = false;
    if (!apart) state.held = false;
  }

  void replay(OpId id) {
    const Op& op = graph_.ops[id];
    result_.duration_ns += op.duration_ns;
    result_.recompute_ns += op.duration_ns;
    ++result_.recomputed_ops;
    std::vector<ValueId> discarded;  // outputs that die when the replay ends
    Bytes unmade = 0;                // Graph::lazy_outputs: outputs that are dropped at once
    for (ValueId output : op.outputs) {
      const ValueId previous = graph_.values[output].previous_epoch;
      if (previous != kNone && droppedNext(previous)) takeOver(previous);
      const bool has_copy = state_[output].held || state_[output].on_host;
      if (graph_.lazy_outputs && (has_copy || last_touch_[output] <= step_)) continue;
      if (has_copy) {  // the copy at hand stays, the new one goes
        add(output);
        discarded.push_back(output);
        continue;
      }
      birth(output, false);
      if (graph_.lazy_outputs && droppedNext(output)) unmade += bytes(output);
      if (last_touch_[output] > step_) continue;
      discarded.push_back(output);
      state_[output].held = false;
    }
    observe(live_ + op.workspace_bytes + nextFixed() - unmade);
    for (const ValueId output : discarded) remove(output);
  }

  bool droppedNext(ValueId id) const {
    for (std::size_t i = step_ + 1; i < steps_.size(); ++i) {
      if (steps_[i].kind == Step::Kind::kRun) return false;
      if (steps_[i].kind == Step::Kind::kDrop && steps_[i].id == id) return true;
    }
    return false;
  }

  void takeOver(ValueId id) {
    State& state = state_[id];
    if (!state.held || (state.held_is_first && state.program_holds)) return;
    remove(id);
    state.taken_over = true;
  }

  const Graph& graph_;
  SimulationWatcher* const watcher_;
  const std::vector<Step>& steps_;
  std::vector<bool> ran_;
  std::vector<State> state_;
  ValuesByOp last_references_;
  ValuesByOp overwritten_;
  std::vector<std::vector<ValueId>> saved_until_;  // per op: after which they hold no more
  std::vector<std::size_t> last_touch_;            // per value: last step that reads or moves it
  std::size_t step_ = 0;
  OpId next_ = 0;  // first runs so far; in program order: the next one
  OpId last_first_run_ = kNone;
  Bytes live_ = 0;
  Simulation result_;
};

}  // namespace

Simulation simulate(const Graph& graph, const Schedule& schedule, SimulationWatcher* watcher) {
  return Machine(graph, schedule, watcher).run();
}

Schedule keepEverything(const Graph& graph) {
  std::vector<OpId> last_reader(graph.values.size());
  for (std::size_t id = 0; id < graph.values.size(); ++id) {
    last_reader[id] = graph.values[id].producer;
  }
  for (std::size_t id = 0; id < graph.ops.size(); ++id) {
    for (ValueId input : graph.ops[id].inputs) last_reader[input] = static_cast<OpId>(id);
  }
  std::vector<std::vector<ValueId>> drops(graph.ops.size() + 1);  // [0]: before the first op
  for (std::size_t id = 0; id < graph.values.size(); ++id) {
    const Value& value = graph.values[id];
    const bool overwritten =
        value.overwritten_by != kNone && value.overwritten_by <= last_reader[id];
    if (!value.pinned && !overwritten) {
      drops[last_reader[id] + 1].push_back(static_cast<ValueId>(id));
    }
  }
  Schedule schedule;
  schedule.steps.reserve(graph.ops.size() + graph.values.size());
  for (std::size_t id = 0; id <= graph.ops.size(); ++id) {
    if (id > 0) schedule.steps.push_back({Step::Kind::kRun, static_cast<OpId>(id) - 1});
    for (ValueId value : drops[id]) schedule.steps.push_back({Step::Kind::kDrop, value});
  }
  return schedule;
}

}  // namespace ebbtide::scheduler
