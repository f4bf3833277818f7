#include "ebbtide/scheduler/microbatch.hpp"

#include <algorithm>
#include <stdexcept>
#include <string>
#include <unordered_map>
#include <utility>

#include "ebbtide/scheduler/simulator.hpp"
#include "search/schedule_writer.hpp"

namespace ebbtide::scheduler {
namespace {

using Kind = Step::Kind;

void checkRising(const std::vector<OpId>& ops, OpId after, std::size_t count) {
  for (const OpId op : ops) {
    if (op <= after || static_cast<std::size_t>(op) >= count)
      throw std::invalid_argument("op " + std::to_string(op) + " of a microbatch is out of order");
    after = op;
  }
}

// A node of the autograd graph that reads nothing, or what comes between two that do.
bool isGap(const Op& op) {
  return op.backward && op.inputs.empty() && op.outputs.empty();
}

// The first op of an action that is no gap; one of gaps alone begins with them.
OpId beginOf(const Graph& step, const std::vector<OpId>& action) {
  const auto begin =
      std::find_if(action.begin(), action.end(), [&step](OpId op) { return !isGap(step.ops[op]); });
  return begin == action.end() ? action.front() : *begin;
}

// Of each of the step's ops: what its microbatch's schedule does before and after its first run.
struct Surroundings {
  explicit Surroundings(std::size_t ops) : before(ops), after(ops) {}

  void add(const Microbatch& of, const Schedule& schedule);

  std::vector<std::vector<Step>> before, after;
};

void Surroundings::add(const Microbatch& of, const Schedule& schedule) {
  std::vector<Step> between;
  OpId next = 0, last = kNone;
  const auto attach = [&](OpId op) {  // what came since the last op's first run
    const bool replays = std::any_of(between.begin(), between.end(),
                                     [](const Step& s) { return s.kind == Kind::kRun; });
    std::vector<Step>& place = op != kNone && (replays || last == kNone) ? before[op] : after[last];
    place.insert(place.end(), between.begin(), between.end());
    between.clear();
  };
  for (const Step& s : schedule.steps) {
    if (s.kind == Kind::kRun && s.id == next) {
      ++next;
      const OpId first_run = of.stepOp(s.id);
      if (first_run == kNone) continue;
      attach(first_run);
      last = first_run;
    } else if (s.kind == Kind::kRun) {
      between.push_back({s.kind, of.stepOp(s.id)});
    } else if (!of.graph().values[s.id].pinned) {
      between.push_back({s.kind, of.stepValue(s.id)});
    }
  }
  attach(kNone);
}

}  // namespace

MicrobatchedStep::MicrobatchedStep(const Graph& graph, std::vector<MicrobatchOps> microbatches)
    : graph_(graph), microbatches_(std::move(microbatches)), readers_(graph.values.size()) {
  for (const MicrobatchOps& ops : microbatches_) {
    if (ops.forward.empty() || ops.backward.empty())
      throw std::invalid_argument("a microbatch has a forward and a backward pass");
    checkRising(ops.forward, kNone, graph.ops.size());
    checkRising(ops.backward, ops.forward.back(), graph.ops.size());
    checkRising(ops.weight_backward, ops.backward.back(), graph.ops.size());
    for (const auto* action : {&ops.forward, &ops.backward, &ops.weight_backward}) {
      if (action->empty()) continue;
      const Op& begin = graph.ops[beginOf(graph, *action)];
      base_bytes_ = std::max(base_bytes_, begin.fixedAtStart());
    }
  }
  for (std::size_t op = 0; op < graph.ops.size(); ++op) {
    for (const ValueId v : graph.ops[op].inputs) readers_[v].push_back(static_cast<OpId>(op));
  }
}

Microbatch::Microbatch(const MicrobatchedStep& step, std::size_t number) {
  placeOps(step, step.microbatches().at(number));
  nameValues(step.graph());
  addValues(step);
  pinBuffers();
  checkGraph(graph_);
}

void Microbatch::placeOps(const MicrobatchedStep& step, const MicrobatchOps& ops) {
  appendAction(step, ops.forward);
  held_ = appendPause("held", ops.forward.back() + 1);
  appendAction(step, ops.backward);
  if (ops.weight_backward.empty()) return;
  parted_ = appendPause("parted", ops.backward.back() + 1);
  appendAction(step, ops.weight_backward);
}

// Gaps (workspaces, gradients) count to the event before them, or to the action's first one: how
// often they stand out differs from one microbatch to the next.
void Microbatch::appendAction(const MicrobatchedStep& step, const std::vector<OpId>& ops) {
  const OpId begin = beginOf(step.graph(), ops);
  Bytes ahead = 0;  // of the gaps before the first op
  for (const OpId id : ops) {
    const Op& recorded = step.graph().ops[id];
    Op op;
    op.fixed_at_start = std::max<Bytes>(0, recorded.fixedAtStart() - step.baseBytes());
    op.fixed_bytes = std::max(op.fixed_at_start, recorded.fixed_bytes - step.baseBytes());
    if (isGap(recorded) && id != begin) {
      Bytes& beside = id < begin ? ahead : graph_.ops.back().fixed_bytes;
      beside = std::max(beside, op.fixed_bytes);
      continue;
    }
    op.fixed_bytes = std::max(op.fixed_bytes, std::exchange(ahead, 0));
    op.name = recorded.name;
    op.duration_ns = recorded.duration_ns;
    op.workspace_bytes = recorded.workspace_bytes;
    op.rerunnable = recorded.rerunnable;
    op.backward = recorded.backward;
    graph_.ops.push_back(std::move(op));
    step_op_.push_back(id);
    begins_at_.push_back(id == begin ? ops.front() : id);
  }
}

OpId Microbatch::appendPause(const char* name, OpId begins_at) {
  Op pause;
  pause.name = name;
  graph_.ops.push_back(std::move(pause));
  step_op_.push_back(kNone);
  begins_at_.push_back(begins_at);
  return static_cast<OpId>(graph_.ops.size()) - 1;
}

// The last of the ops that have begun by then, `held` and `parted` among them; kNone: none has.
OpId Microbatch::placeOf(OpId step_op) const {
  const auto next = std::upper_bound(begins_at_.begin(), begins_at_.end(), step_op);
  return static_cast<OpId>(next - begins_at_.begin()) - 1;
}

// kNone: none of its ops.
OpId Microbatch::localOf(OpId step_op) const {
  const OpId place = placeOf(step_op);
  return place != kNone && step_op_[place] == step_op ? place : kNone;
}

// Local ids come in the order in which the ops meet the values, so that they are the same for each
// microbatch. Of what an op reads first, ids of the step say nothing (a parameter's is older than
// that of the batch, but in the first microbatch): who reads it later does. Those that the same ops
// read may change places.
void Microbatch::nameValues(const Graph& step) {
  struct Met {
    std::vector<OpId> readers;
    ValueId local = kNone;
  };
  std::unordered_map<ValueId, Met> met;
  for (std::size_t op = 0; op < step_op_.size(); ++op) {
    if (step_op_[op] == kNone) continue;
    for (const ValueId v : step.ops[step_op_[op]].inputs)
      met[v].readers.push_back(static_cast<OpId>(op));
  }
  const auto before = [&](ValueId a, ValueId b) {
    const Value &x = step.values[a], &y = step.values[b];
    if (x.bytes != y.bytes) return x.bytes < y.bytes;
    const auto &of_a = met.at(a).readers, &of_b = met.at(b).readers;
    return of_a != of_b ? of_a < of_b : a < b;
  };
  const auto name = [&](ValueId v) {
    ValueId& local = met[v].local;
    if (local == kNone) {
      local = static_cast<ValueId>(values_.size());
      values_.push_back(v);
      graph_.values.push_back(step.values[v]);
    }
    return local;
  };
  for (std::size_t op = 0; op < step_op_.size(); ++op) {
    if (step_op_[op] == kNone) continue;
    const Op& recorded = step.ops[step_op_[op]];
    std::vector<ValueId> inputs = recorded.inputs;
    std::sort(inputs.begin(), inputs.end(), before);
    Op& own = graph_.ops[op];
    for (const ValueId v : inputs) own.inputs.push_back(name(v));
    std::sort(own.inputs.begin(), own.inputs.end());
    for (const ValueId v : recorded.outputs) own.outputs.push_back(name(v));
  }
  for (Value& value : graph_.values) {
    const auto previous = met.find(value.previous_epoch);
    value.previous_epoch = previous == met.end() ? kNone : previous->second.local;
  }
}

// Own are values that its ops make, and those that it alone reads and nobody holds to its end.
// Others are not the schedule's to drop.
void Microbatch::addValues(const MicrobatchedStep& step) {
  const OpId last = static_cast<OpId>(graph_.ops.size()) - 1;
  for (std::size_t local = 0; local < values_.size(); ++local) {
    Value& value = graph_.values[local];
    const OpId producer = localOf(value.producer), writer = localOf(value.overwritten_by);
    const bool made = producer != kNone, made_elsewhere = !made && value.producer != kNone;
    const bool written_elsewhere = value.overwritten_by != kNone && writer == kNone;
    const OpId last_reference = placeOf(value.last_reference);
    OpId read_elsewhere = kNone;  // last
    bool backward_elsewhere = false;
    if (made || !value.pinned) {
      for (const OpId op : step.readers(values_[local])) {
        if (localOf(op) != kNone) continue;
        read_elsewhere = op;
        backward_elsewhere = backward_elsewhere || step.graph().ops[op].backward;
      }
    }
    const bool of_others =
        written_elsewhere || (made_elsewhere && writer != kNone) ||
        (made ? backward_elsewhere : read_elsewhere != kNone || last_reference == last);
    value.producer = producer;
    value.overwritten_by = writer;
    if (!made) value.previous_epoch = kNone;
    value.last_reference = made && last_reference < producer ? kNone : last_reference;
    value.saved_last = writer != kNone ? kNone : placeOf(value.saved_last);
    if (made && read_elsewhere != kNone)
      value.last_reference = std::max(value.last_reference, placeOf(read_elsewhere));
    if (of_others) pin(value);
  }
}

// Its bytes are others', but a replay of its producer makes a copy of its own meanwhile.
void Microbatch::pin(Value& value) {
  if (std::exchange(value.pinned, true) || value.producer == kNone) return;
  graph_.ops[value.producer].workspace_bytes += value.bytes;
}

// What microbatches write over one after the other (statistics of batches, counters) is none's own.
void Microbatch::pinBuffers() {
  for (const Value& value : graph_.values) {
    if (!value.pinned || value.previous_epoch == kNone) continue;
    Value& before = graph_.values[value.previous_epoch];
    if (before.producer == kNone) pin(before);
  }
}

bool Microbatch::isLike(const Microbatch& other) const {
  const Graph &a = graph_, &b = other.graph_;
  if (a.ops.size() != b.ops.size() || a.values.size() != b.values.size()) return false;
  if (held_ != other.held_ || parted_ != other.parted_) return false;
  for (std::size_t i = 0; i < a.ops.size(); ++i) {
    if (a.ops[i].name != b.ops[i].name || a.ops[i].backward != b.ops[i].backward ||
        a.ops[i].inputs != b.ops[i].inputs || a.ops[i].outputs != b.ops[i].outputs)
      return false;
  }
  for (std::size_t v = 0; v < a.values.size(); ++v) {
    const Value &x = a.values[v], &y = b.values[v];
    if (x.bytes != y.bytes || x.producer != y.producer || x.previous_epoch != y.previous_epoch ||
        x.overwritten_by != y.overwritten_by)
      return false;
  }
  return true;
}

void Microbatch::join(const Microbatch& other) {
  pinAs(other);
  for (std::size_t i = 0; i < graph_.ops.size(); ++i) {
    Op& op = graph_.ops[i];
    const Op& theirs = other.graph_.ops[i];
    const Bytes at_start = std::max(op.fixedAtStart(), theirs.fixedAtStart());
    op.fixed_bytes = std::max(op.fixed_bytes, theirs.fixed_bytes);
    op.fixed_at_start = at_start;
    op.workspace_bytes = std::max(op.workspace_bytes, theirs.workspace_bytes);
    op.rerunnable = op.rerunnable && theirs.rerunnable;
  }
  for (std::size_t v = 0; v < graph_.values.size(); ++v) {
    Value& value = graph_.values[v];
    value.last_reference = std::max(value.last_reference, other.graph_.values[v].last_reference);
    value.saved_last = std::max(value.saved_last, other.graph_.values[v].saved_last);
  }
}

void Microbatch::pinAs(const Microbatch& other) {
  for (std::size_t v = 0; v < graph_.values.size(); ++v) {
    if (other.graph_.values[v].pinned) pin(graph_.values[v]);
  }
}

StagePoint Microbatch::pointOf(const Schedule& schedule) const {
  const Simulation simulated = simulate(graph_, schedule);
  StagePoint point;
  point.recompute_ns = simulated.recompute_ns;
  point.held_bytes = simulated.live_bytes[held_] - graph_.ops[held_].fixed_bytes;
  for (OpId op = 0; op < static_cast<OpId>(graph_.ops.size()); ++op) {
    if (op == held_ || op == parted_) continue;
    Bytes& most = op < held_ ? point.forward_bytes : point.backward_bytes;
    most = std::max(most, simulated.live_bytes[op]);
  }
  point.forward_bytes = std::max(point.forward_bytes, point.held_bytes);
  point.backward_bytes = std::max(point.backward_bytes, point.held_bytes);
  return point;
}

Bytes Microbatch::weightHeldBytes(const Schedule& schedule) const {
  return parted_ == kNone ? 0 : simulate(graph_, schedule).live_bytes[parted_];
}

Schedule composeStep(const Graph& step, const std::vector<const Microbatch*>& microbatches,
                     const std::vector<const Schedule*>& schedules) {
  Surroundings around(step.ops.size());
  for (std::size_t m = 0; m < microbatches.size(); ++m) around.add(*microbatches[m], *schedules[m]);
  ScheduleWriter writer(step);
  const auto write = [&](const std::vector<Step>& steps) {
    for (const Step& s : steps) {
      if (s.kind == Kind::kRun) {
        for (const OpId lacking : std::vector<OpId>(writer.missingFor(s.id))) {
          if (lacking != s.id) writer.replay(lacking);
        }
        writer.replay(s.id);
      } else if (!step.values[s.id].pinned) {
        writer.forget(s.id);
      }
    }
  };
  for (OpId op = 0; op < static_cast<OpId>(step.ops.size()); ++op) {
    write(around.before[op]);
    for (const OpId lacking : std::vector<OpId>(writer.missingFor(op))) writer.replay(lacking);
    writer.firstRun(op);
    write(around.after[op]);
  }
  return writer.schedule();
}

}  // namespace ebbtide::scheduler
