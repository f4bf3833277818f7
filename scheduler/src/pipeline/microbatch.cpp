#include "ebbtide/scheduler/microbatch.hpp"

#include <algorithm>
#include <stdexcept>
#include <string>

#include "ebbtide/scheduler/simulator.hpp"
#include "schedule_writer.hpp"

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

// Who reads a value of the step, besides the microbatch's own ops.
struct Readers {
  OpId last = kNone;
  bool others = false, others_backward = false;
};

std::vector<Readers> readersOf(const Graph& step, const std::vector<OpId>& local_op) {
  std::vector<Readers> readers(step.values.size());
  for (std::size_t id = 0; id < step.ops.size(); ++id) {
    for (const ValueId v : step.ops[id].inputs) {
      if (local_op[id] != kNone) continue;
      readers[v].last = static_cast<OpId>(id);
      readers[v].others = true;
      readers[v].others_backward |= step.ops[id].backward;
    }
  }
  return readers;
}

}  // namespace

Microbatch::Microbatch(const Graph& step, const MicrobatchOps& ops) {
  if (ops.forward.empty() || ops.backward.empty())
    throw std::invalid_argument("a microbatch has a forward and a backward pass");
  checkRising(ops.forward, kNone, step.ops.size());
  checkRising(ops.backward, ops.forward.back(), step.ops.size());
  checkRising(ops.weight_backward, ops.backward.back(), step.ops.size());
  placeOps(step, ops);
  nameValues(step);
  addValues(step);
  checkGraph(graph_);
  std::vector<OpId>().swap(local_op_);  // of the whole step's length
  std::vector<ValueId>().swap(local_value_);
}

void Microbatch::placeOps(const Graph& step, const MicrobatchOps& ops) {
  local_op_.assign(step.ops.size(), kNone);
  appendAction(step, ops.forward);
  held_ = static_cast<OpId>(graph_.ops.size());
  appendPause("held");
  appendAction(step, ops.backward);
  if (ops.weight_backward.empty()) return;
  parted_ = static_cast<OpId>(graph_.ops.size());
  appendPause("parted");
  appendAction(step, ops.weight_backward);
}

// What comes between two backward events (workspaces, gradients) counts to the event before: how
// often it stands out differs from one microbatch to the next.
void Microbatch::appendAction(const Graph& step, const std::vector<OpId>& ops) {
  const Bytes begin = step.ops[ops.front()].fixedAtStart();
  fixed_bytes_ = std::max(fixed_bytes_, begin);
  for (const OpId id : ops) {
    Op op = step.ops[id];
    op.fixed_at_start = std::max<Bytes>(0, op.fixedAtStart() - begin);
    op.fixed_bytes = std::max(op.fixed_at_start, op.fixed_bytes - begin);
    const bool gap = op.backward && op.inputs.empty() && op.outputs.empty();
    if (gap && id != ops.front()) {
      Op& before = graph_.ops.back();
      before.fixed_bytes = std::max(before.fixed_bytes, op.fixed_bytes);
      continue;
    }
    op.inputs.clear();
    op.outputs.clear();
    local_op_[id] = static_cast<OpId>(graph_.ops.size());
    graph_.ops.push_back(std::move(op));
    step_op_.push_back(id);
  }
}

void Microbatch::appendPause(const char* name) {
  Op pause;
  pause.name = name;
  graph_.ops.push_back(std::move(pause));
  step_op_.push_back(kNone);
}

// The last of the ops that have run by then, `held` and `parted` among them; kNone: none has.
OpId Microbatch::placeOf(OpId step_op) const {
  if (step_op == kNone) return kNone;
  OpId place = kNone;
  for (std::size_t op = 0; op < step_op_.size(); ++op) {
    // A pause has begun once an op of others has run after the one before it.
    const bool pause = step_op_[op] == kNone;
    if (pause ? step_op > step_op_[op - 1] : step_op >= step_op_[op]) place = static_cast<OpId>(op);
  }
  return place;
}

// Local ids come in the order in which the ops meet the values, so that they are the same for each
// microbatch. Of what an op reads first, ids of the step say nothing (a parameter's is older than
// that of the batch, but in the first microbatch): who reads it later does. Those that the same ops
// read may change places.
void Microbatch::nameValues(const Graph& step) {
  std::vector<std::vector<OpId>> readers(step.values.size());
  for (std::size_t op = 0; op < step_op_.size(); ++op) {
    if (step_op_[op] == kNone) continue;
    for (const ValueId v : step.ops[step_op_[op]].inputs)
      readers[v].push_back(static_cast<OpId>(op));
  }
  const auto before = [&](ValueId a, ValueId b) {
    const Value &x = step.values[a], &y = step.values[b];
    if (x.bytes != y.bytes) return x.bytes < y.bytes;
    return readers[a] != readers[b] ? readers[a] < readers[b] : a < b;
  };
  local_value_.assign(step.values.size(), kNone);
  const auto name = [this](ValueId v) {
    if (local_value_[v] != kNone) return;
    local_value_[v] = static_cast<ValueId>(values_.size());
    values_.push_back(v);
  };
  for (std::size_t op = 0; op < step_op_.size(); ++op) {
    if (step_op_[op] == kNone) continue;
    const Op& recorded = step.ops[step_op_[op]];
    std::vector<ValueId> inputs = recorded.inputs;
    std::sort(inputs.begin(), inputs.end(), before);
    Op& own = graph_.ops[op];
    for (const ValueId v : inputs) {
      name(v);
      own.inputs.push_back(local_value_[v]);
    }
    std::sort(own.inputs.begin(), own.inputs.end());
    for (const ValueId v : recorded.outputs) {
      name(v);
      own.outputs.push_back(local_value_[v]);
    }
  }
}

// Own are values that its ops make, and those that it alone reads and nobody holds to its end.
// Others are not the schedule's to drop.
void Microbatch::addValues(const Graph& step) {
  const std::vector<Readers> readers = readersOf(step, local_op_);
  const auto is_own = [this](OpId op) { return op != kNone && local_op_[op] != kNone; };
  const OpId last = static_cast<OpId>(graph_.ops.size()) - 1;
  for (const ValueId v : values_) {
    Value value = step.values[v];
    const bool made = is_own(value.producer);
    const bool written_elsewhere = value.overwritten_by != kNone && !is_own(value.overwritten_by);
    const OpId natural_last = placeOf(value.natural_last);
    value.pinned = value.pinned || written_elsewhere ||
                   (made ? readers[v].others_backward : readers[v].others || natural_last == last);
    value.producer = made ? local_op_[value.producer] : kNone;
    value.overwritten_by = is_own(value.overwritten_by) ? local_op_[value.overwritten_by] : kNone;
    value.previous_epoch =
        made && value.previous_epoch != kNone ? local_value_[value.previous_epoch] : kNone;
    value.natural_last = made && natural_last < value.producer ? kNone : natural_last;
    if (made && readers[v].others)
      value.natural_last = std::max(value.natural_last, placeOf(readers[v].last));
    graph_.values.push_back(value);
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
        x.overwritten_by != y.overwritten_by || x.pinned != y.pinned)
      return false;
  }
  return true;
}

void Microbatch::join(const Microbatch& other) {
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
    OpId& natural_last = graph_.values[v].natural_last;
    natural_last = std::max(natural_last, other.graph_.values[v].natural_last);
  }
  fixed_bytes_ = std::max(fixed_bytes_, other.fixed_bytes_);
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
  // Of each of the step's ops: what its microbatch's schedule does before and after its first run.
  std::vector<std::vector<Step>> before(step.ops.size()), after(step.ops.size());
  for (std::size_t m = 0; m < microbatches.size(); ++m) {
    const Microbatch& of = *microbatches[m];
    std::vector<Step> between;
    OpId next = 0, last = kNone;
    const auto attach = [&](OpId op) {  // what came since the last op's first run
      const bool replays = std::any_of(between.begin(), between.end(),
                                       [](const Step& s) { return s.kind == Kind::kRun; });
      std::vector<Step>& place =
          op != kNone && (replays || last == kNone) ? before[op] : after[last];
      place.insert(place.end(), between.begin(), between.end());
      between.clear();
    };
    for (const Step& s : schedules[m]->steps) {
      if (s.kind == Kind::kRun && s.id == next) {
        ++next;
        const OpId first_run = of.stepOp(s.id);
        if (first_run == kNone) continue;
        attach(first_run);
        last = first_run;
        continue;
      }
      between.push_back({s.kind, s.kind == Kind::kRun ? of.stepOp(s.id) : of.stepValue(s.id)});
    }
    attach(kNone);
  }
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
    write(before[op]);
    for (const OpId lacking : std::vector<OpId>(writer.missingFor(op))) writer.replay(lacking);
    writer.firstRun(op);
    write(after[op]);
  }
  return writer.schedule();
}

}  // namespace ebbtide::scheduler
