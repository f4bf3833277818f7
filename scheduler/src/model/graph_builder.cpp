#include "ebbtide/scheduler/graph_builder.hpp"

#include <algorithm>
#include <optional>
#include <stdexcept>
#include <utility>

#include "model/block_roles.hpp"
#include "model/last_reads.hpp"
#include "model/late_inputs.hpp"
#include "model/step_ops.hpp"
#include "model/trace_check.hpp"
#include "model/value_lives.hpp"

namespace ebbtide::scheduler {
namespace {

using Kind = TraceEvent::Kind;

// Of the step's start, what no schedule can change. Persistent blocks (GraphOptions::first_step)
// count from the start on, though the step allocates them later; what only this step found does
// not.
struct StartBytes {
  Bytes fixed = 0;
  Bytes persistent = 0;  // a part of it
  Bytes found_once = 0;  // none of it
};

StartBytes startBytes(const Trace& trace, const BlockRoles& roles) {
  StartBytes start{.fixed = trace.base_bytes};
  for (std::size_t b = 0; b < trace.blocks.size(); ++b) {
    if (roles.persistent[b]) start.persistent += trace.blocks[b].bytes;
    start.found_once += roles.found_once[b];
    if (roles.managed[b] && trace.blocks[b].before_step) start.fixed -= trace.blocks[b].bytes;
  }
  start.fixed += start.persistent - start.found_once;
  return start;
}

// Does anything in the graph come of it?
bool isOfGraph(const Trace& trace, const TraceEvent& event) {
  switch (event.kind) {
    case Kind::kMessage:
      return trace.messages.at(event.id).receive;
    case Kind::kScopeBegin:
    case Kind::kScopeEnd:
    case Kind::kBackwardPass:
      return false;
    default:
      return true;
  }
}

// Walks the events once. Position p of the graph's ops: forward ops as recorded; a backward event
// from the first unpack of a node to its first release (or the next node); gaps where they matter.
class GraphBuilder {
 public:
  GraphBuilder(const Trace& trace, const GraphOptions& options)
      : trace_(trace),
        roles_(blockRoles(trace, options)),
        start_(startBytes(trace, roles_)),
        found_once_(start_.found_once),
        ops_(start_.fixed),
        late_inputs_(trace, roles_.managed),
        lives_(trace),
        op_of_trace_op_(trace.ops.size(), kNone),
        events_of_use_(trace.use_value.size()) {}

  TraceGraph build() {
    for (std::size_t i = 0; i < trace_.events.size(); ++i) {
      if (!isOfGraph(trace_, trace_.events[i])) continue;
      ops_.reach(i, trace_.events[i].at_ns);
      apply(trace_.events[i]);
    }
    endOp();
    // Fixed bytes to the end.
    for (const BlockId block : late_inputs_.takeAwaited()) roles_.shared[block] = true;
    return finish();
  }

 private:
  struct BackwardStart {
    OpId op;            // the first one of the backward pass
    Bytes fixed_bytes;  // then
  };

  bool isShared(const TraceValue& value) const {
    return value.block != kNone && roles_.shared[value.block];
  }

  void apply(const TraceEvent& event) {
    switch (event.kind) {
      case Kind::kAlloc:
        change(event.id, +1);
        awaitGraphInput(event.id);
        break;
      case Kind::kFree:
        change(event.id, -1);
        forgetGraphInput(event.id);
        lives_.noteFreed(event.id, ops_.last());
        break;
      case Kind::kOpBegin:
        beginOp(event.id);
        break;
      case Kind::kOpEnd:
        in_op_ = false;
        break;
      case Kind::kBackwardNode:
        beginNode(event.id);
        break;
      case Kind::kUnpack:
        unpack(event.id);
        break;
      case Kind::kRelease:
        noteRelease(trace_.use_value.at(event.id));
        leaveEvent();
        break;
      case Kind::kLastReference:
        lives_.noteLastReference(event.id, ops_.last());
        break;
      case Kind::kMessage:
        ++asked_for_;
        break;
      case Kind::kScopeBegin:
      case Kind::kScopeEnd:
      case Kind::kBackwardPass:
        break;  // not of the graph
    }
    if (!in_op_ && !in_event_) addAwaited();
    if (!in_op_) addWaits();
  }

  void change(BlockId block, int sign) {
    const TraceBlock& info = trace_.blocks.at(block);
    if (roles_.managed[block] || roles_.persistent[block] || info.ours) return;
    const Bytes once = roles_.found_once[block];  // 0 but of what is freed
    found_once_ -= once;
    ops_.addFixed(sign * (info.bytes - once));
  }

  // Until the op or event ends in which it is allocated, the block is part of that.
  void awaitGraphInput(BlockId block) {
    const ValueId value = late_inputs_.in(block);
    if (value == kNone) return;
    if (!in_op_ && !in_event_) {
      addGraphInput(value);
      return;
    }
    ops_.addFixed(trace_.blocks[block].bytes);
    late_inputs_.await(block);
  }

  // Freed before it could become a value of the graph: bytes of that op or event alone.
  void forgetGraphInput(BlockId block) {
    if (!late_inputs_.forget(block)) return;
    ops_.addFixed(-trace_.blocks[block].bytes);
    roles_.shared[block] = true;
  }

  void addAwaited() {
    if (!late_inputs_.awaits()) return;
    for (const BlockId block : late_inputs_.takeAwaited()) {
      ops_.addFixed(-trace_.blocks[block].bytes);
      addGraphInput(late_inputs_.in(block));
    }
  }

  void addGraphInput(ValueId value) {
    pushInputs(value);
    late_inputs_.begin(value, ops_.last());
  }

  // As the output of an op that does nothing else.
  void pushInputs(ValueId value) {
    Op op;
    op.name = "inputs";
    op.outputs = {value};
    push(std::move(op));
  }

  // Once the op that asks has ended. What the program does until its next op or event is the
  // wait's; what a node unpacks after it is another event.
  void addWaits() {
    for (; asked_for_ > 0; --asked_for_) {
      if (in_event_) {
        leaveEvent();
        addAwaited();
      }
      Op op;
      op.name = "wait";
      op.waits = true;
      push(std::move(op));
      unread_ = true;
    }
  }

  void push(Op op, OpId trace_op = kNone) {
    endOp();
    ops_.begin(std::move(op), trace_op);
  }

  void endOp() {
    ops_.end();
    lives_.endGap(ops_.last());
  }

  void beginOp(OpId id) {
    if (id != next_op_)
      throw std::invalid_argument("trace: ops out of order at op " + std::to_string(id));
    ++next_op_;
    endRegion();
    if (in_event_ && late_inputs_.awaits()) {  // of a kept graph: nothing was released since
      leaveEvent();
      addAwaited();
    }
    for (const LateInputs::Written& written : late_inputs_.writtenBefore(id)) {
      pushInputs(written.value);
      late_inputs_.beginOver(written, ops_.last());
    }
    in_event_ = false;
    unread_ = true;
    in_op_ = true;
    push(graphOp(trace_.ops.at(id)), id);
    op_of_trace_op_.at(id) = ops_.last();
  }

  Op graphOp(const TraceOp& recorded) const {
    Op op;
    op.name = recorded.name;
    op.duration_ns = recorded.duration_ns;
    op.rerunnable = recorded.rerunnable;
    for (const ValueId v : recorded.outputs)
      op.rerunnable = op.rerunnable && !isShared(trace_.values[v]);
    // What such a block held before is nowhere: nobody gives it up, and nothing makes it again.
    for (const ValueId v : recorded.inputs) {
      const TraceValue& read = trace_.values[v];
      op.rerunnable = op.rerunnable && (read.overwritten_by == kNone || !isShared(read));
    }
    op.inputs = recorded.inputs;
    op.outputs = recorded.outputs;
    std::sort(op.inputs.begin(), op.inputs.end());
    op.inputs.erase(std::unique(op.inputs.begin(), op.inputs.end()), op.inputs.end());
    return op;
  }

  // The first node or, where a program asks for what was saved, the first unpack.
  void noteBackward() {
    if (!backward_) backward_ = BackwardStart{ops_.last() + 1, ops_.fixedBytes() + found_once_};
  }

  void unpack(UseId use) {
    const ValueId value = trace_.use_value.at(use);
    noteBackward();
    if (!in_event_) {
      Op op;
      op.name = "backward";
      op.backward = true;
      push(std::move(op));
      in_event_ = true;
      unread_ = false;
      unpacked_.clear();
    }
    unpacked_.push_back(value);
    std::vector<OpId>& events = events_of_use_[use];
    if (events.empty() || events.back() != ops_.last()) events.push_back(ops_.last());
    if (value != kNone) ops_.read(value);
  }

  void beginNode(std::int32_t name) {
    const bool in_region = name != kNone && static_cast<std::size_t>(name) < trace_.nodes.size() &&
                           trace_.nodes[name] == kCheckpointNode;
    const bool ends_event = in_event_;
    noteBackward();
    leaveEvent();
    beginUnreadNode();
    if (!in_region) {
      endRegion();
    } else if (ends_event) {
      holdForTheRegion();
    }
    unpacked_.clear();
  }

  void endRegion() {
    for (const BlockId block : region_blocks_) ops_.addFixed(-trace_.blocks[block].bytes);
    region_blocks_.clear();
  }

  // Until the node that runs it ends: a little too long.
  void holdForTheRegion() {
    for (const ValueId v : unpacked_) {
      const BlockId block = v != kNone ? trace_.values[v].block : kNone;
      const bool known =
          std::find(region_blocks_.begin(), region_blocks_.end(), block) != region_blocks_.end();
      if (block == kNone || known || !roles_.managed[block]) continue;
      region_blocks_.push_back(block);
      ops_.addFixed(trace_.blocks[block].bytes);
    }
  }

  // Up to the present op, or the gap behind it once that has made something.
  void noteRelease(ValueId value) {
    if (ops_.gapGrew())
      lives_.noteReleaseInGap(value);
    else
      lives_.noteRelease(value, ops_.last());
  }

  // The node's saved values are released, or another node begins: what follows is a gap until the
  // next op.
  void leaveEvent() {
    if (!in_event_) return;
    in_event_ = false;
    beginGap();
  }

  // Nothing has been unpacked since the last op: what nodes allocate and let go of is told apart by
  // them, since no events do (all values saved by hooks of the program's own).
  void beginUnreadNode() {
    if (unread_ && !ops_.empty()) beginGap();
  }

  void beginGap() {
    ops_.beginGap();
    lives_.endGap(ops_.last());
  }

  TraceGraph finish() {
    StepOps::Made made = ops_.take();
    TraceGraph out;
    out.graph.ops = std::move(made.ops);
    out.trace_op_of = std::move(made.trace_op_of);
    out.event_of = std::move(made.event_of);
    out.op_of_trace_op = std::move(op_of_trace_op_);
    out.events_of_use = std::move(events_of_use_);
    out.base_bytes = trace_.base_bytes;
    Graph& graph = out.graph;
    if (graph.ops.empty()) return out;
    const OpId last = static_cast<OpId>(graph.ops.size()) - 1;
    for (std::size_t v = 0; v < trace_.values.size(); ++v)
      graph.values.push_back(graphValue(static_cast<ValueId>(v), out.op_of_trace_op, last));
    endOverwritten(graph);
    if (backward_) out.activation_bytes = activationBytes(graph, *backward_);
    keepLostParameters(graph);
    noteSavedLonger(graph);
    return out;
  }

  Value graphValue(ValueId v, const std::vector<OpId>& op_of_trace_op, OpId last) const {
    const TraceValue& recorded = trace_.values[v];
    Value value;
    value.producer =
        recorded.producer == kNone ? late_inputs_.bornAt(v) : op_of_trace_op.at(recorded.producer);
    value.previous_epoch = recorded.previous_epoch;
    value.overwritten_by = recorded.overwritten_by == kNone || recorded.overwritten_by >= next_op_
                               ? kNone
                               : op_of_trace_op.at(recorded.overwritten_by);
    value.pinned = recorded.parameter || recorded.block == kNone || isShared(recorded);
    if (late_inputs_.takesOver(v) != kNone) value.previous_epoch = late_inputs_.takesOver(v);
    if (isShared(recorded)) value.previous_epoch = value.overwritten_by = kNone;
    if (value.pinned) return value;
    value.bytes = trace_.blocks.at(recorded.block).bytes;
    const OpId held = lives_.lastHeld(v, recorded.block);
    value.last_reference = held == kNone ? last : held;
    // A later epoch takes the bytes over.
    if (value.overwritten_by != kNone)
      value.last_reference = std::min(value.last_reference, value.overwritten_by);
    return value;
  }

  // What late inputs were written over.
  void endOverwritten(Graph& graph) const {
    for (std::size_t v = 0; v < graph.values.size(); ++v) {
      const ValueId over = late_inputs_.takesOver(static_cast<ValueId>(v));
      if (over == kNone) continue;
      Value& before = graph.values[over];
      before.overwritten_by = graph.values[v].producer;
      before.last_reference = std::min(before.last_reference, before.overwritten_by);
    }
  }

  // A parameter whose memory goes away in mid-step: gathered again unseen (FSDP), or a leaf of the
  // step's own. Ops that read it are not run again if that might be asked of them later.
  void keepLostParameters(Graph& graph) const {
    std::vector<OpId> replayed_until(graph.values.size(), kNone);  // at the latest
    for (std::size_t id = graph.ops.size(); id-- > 0;) {
      Op& op = graph.ops[id];
      OpId until = op.backward ? static_cast<OpId>(id) : kNone;
      for (const ValueId v : op.outputs) until = std::max(until, replayed_until[v]);
      const auto lost = [this, until](ValueId v) {
        const TraceValue& value = trace_.values[v];
        if (!value.parameter || value.block == kNone) return false;
        const OpId freed_at = lives_.freedAt(value.block);
        return freed_at != kNone && freed_at < until;
      };
      if (op.rerunnable && std::any_of(op.inputs.begin(), op.inputs.end(), lost))
        op.rerunnable = false;
      if (!op.backward && !op.rerunnable) continue;
      for (const ValueId v : op.inputs) replayed_until[v] = std::max(replayed_until[v], until);
    }
  }

  // Graphs that are kept: what their saved tensors hold longer than anybody reads it.
  void noteSavedLonger(Graph& graph) const {
    const std::vector<OpId> read_at = lastReads(graph);
    const OpId last = static_cast<OpId>(graph.ops.size()) - 1;
    for (std::size_t v = 0; v < graph.values.size(); ++v) {
      Value& value = graph.values[v];
      value.saved_last = lives_.savedUntil(static_cast<ValueId>(v), last);
      const bool longer = value.saved_last > std::max(read_at[v], value.last_reference);
      if (!longer || value.pinned || value.overwritten_by != kNone) value.saved_last = kNone;
    }
  }

  // Values alive when the first backward event begins, with nothing dropped, and the unmanaged
  // growth.
  Bytes activationBytes(const Graph& graph, const BackwardStart& backward) const {
    const std::vector<OpId> last_read = lastReads(graph);
    Bytes live = backward.fixed_bytes - trace_.base_bytes - start_.persistent;
    for (std::size_t v = 0; v < graph.values.size(); ++v) {
      const Value& value = graph.values[v];
      if (value.pinned || value.producer >= backward.op) continue;
      if (value.overwritten_by != kNone && value.overwritten_by < backward.op) continue;
      const bool read_in_backward = last_read[v] >= backward.op;
      if (value.last_reference >= backward.op || read_in_backward) live += value.bytes;
    }
    return live;
  }

  const Trace& trace_;
  BlockRoles roles_;
  const StartBytes start_;
  Bytes found_once_;  // of that, what is not yet given back
  StepOps ops_;
  LateInputs late_inputs_;
  ValueLives lives_;
  std::vector<OpId> op_of_trace_op_;
  std::vector<std::vector<OpId>> events_of_use_;
  std::optional<BackwardStart> backward_;
  int asked_for_ = 0;  // messages that the op at hand receives
  OpId next_op_ = 0;
  bool in_op_ = false;
  bool in_event_ = false;
  bool unread_ = true;
  std::vector<ValueId> unpacked_;       // in the event at hand
  std::vector<BlockId> region_blocks_;  // fixed: what a checkpoint's region was given
};

}  // namespace

TraceGraph buildGraph(const Trace& trace, const GraphOptions& options) {
  checkTrace(trace);
  TraceGraph result = GraphBuilder(trace, options).build();
  result.restores.resize(result.graph.ops.size());
  checkGraph(result.graph);
  return result;
}

}  // namespace ebbtide::scheduler
