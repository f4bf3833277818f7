#include "ebbtide/scheduler/graph_builder.hpp"

#include <algorithm>
#include <stdexcept>
#include <utility>

#include "model/block_roles.hpp"
#include "model/trace_check.hpp"

namespace ebbtide::scheduler {
namespace {

using Kind = TraceEvent::Kind;

// Walks the events once. Position p of the graph's ops: forward ops as recorded; a backward event
// from the first unpack of a node to its first release (or the next node); gaps where they matter.
class GraphBuilder {
 public:
  GraphBuilder(const Trace& trace, const GraphOptions& options) : trace_(trace) {
    BlockRoles roles = blockRoles(trace, options);
    shared_ = std::move(roles.shared);
    managed_ = std::move(roles.managed);
    persistent_ = std::move(roles.persistent);
    block_freed_at_.assign(trace.blocks.size(), kNone);
    last_reference_.assign(trace.values.size(), kNone);
    released_at_.assign(trace.values.size(), kNone);
    to_release_.assign(trace.values.size(), 0);
    for (const ValueId v : trace.use_value) {
      if (v != kNone) ++to_release_[v];
    }
    source_in_.assign(trace.blocks.size(), kNone);
    born_at_.assign(trace.values.size(), kNone);
    takes_over_.assign(trace.values.size(), kNone);
    written_before_.resize(trace.ops.size());
    out_.op_of_trace_op.assign(trace.ops.size(), kNone);
    out_.events_of_use.resize(trace.use_value.size());
  }

  TraceGraph build() {
    markGraphInputs();
    startFixed();
    for (; event_ < trace_.events.size(); ++event_) apply(trace_.events[event_]);
    endBackwardEvent();
    closeGap();
    for (const BlockId block : awaited_) shared_[block] = true;  // fixed bytes to the end
    finishValues();
    return std::move(out_);
  }

 private:
  bool isShared(const TraceValue& value) const {
    return value.block != kNone && shared_[value.block];
  }

  // Graph inputs that are not there from the start: their blocks are allocated in mid-step (the
  // next micro-batch, what a custom Function makes), or were written over by no op that we know.
  void markGraphInputs() {
    const auto ops = static_cast<OpId>(trace_.ops.size());
    std::vector<OpId> first_read(trace_.values.size(), ops), last_read(trace_.values.size(), kNone);
    for (OpId op = 0; op < ops; ++op) {
      for (const ValueId v : trace_.ops[op].inputs) {
        first_read.at(v) = std::min(first_read[v], op);
        last_read[v] = op;
      }
    }
    std::vector<ValueId> newest(trace_.blocks.size(), kNone);
    for (std::size_t v = 0; v < trace_.values.size(); ++v) {
      const TraceValue& value = trace_.values[v];
      if (value.block == kNone || value.parameter) continue;
      const ValueId before = std::exchange(newest[value.block], static_cast<ValueId>(v));
      const TraceBlock& block = trace_.blocks[value.block];
      if (value.producer != kNone || !managed_[value.block]) continue;
      if (before == kNone) {
        if (!block.before_step && !block.ours) source_in_[value.block] = newest[value.block];
        continue;
      }
      const OpId written_before = trace_.values[before].overwritten_by;
      if (written_before == kNone) continue;
      const OpId op = std::min(written_before, first_read[v]);
      if (last_read[before] < op && trace_.values[before].producer < op)
        written_before_[op].emplace_back(newest[value.block], before);
    }
  }

  void startFixed() {
    out_.base_bytes = trace_.base_bytes;
    fixed_ = trace_.base_bytes;
    for (std::size_t b = 0; b < trace_.blocks.size(); ++b) {
      if (persistent_[b]) persistent_bytes_ += trace_.blocks[b].bytes;
      if (managed_[b] && trace_.blocks[b].before_step) fixed_ -= trace_.blocks[b].bytes;
    }
    fixed_ += persistent_bytes_;
    gap_peak_ = fixed_;
  }

  void apply(const TraceEvent& event) {
    const Nanoseconds before_ns = std::exchange(at_ns_, event.at_ns);
    switch (event.kind) {
      case Kind::kAlloc:
        change(event.id, +1);
        awaitGraphInput(event.id);
        break;
      case Kind::kFree:
        change(event.id, -1);
        forgetGraphInput(event.id);
        block_freed_at_.at(event.id) = here();
        break;
      case Kind::kOpBegin:
        beginOp(event.id);
        break;
      case Kind::kOpEnd:
        in_op_ = false;
        break;
      case Kind::kBackwardNode:
        noteBackward();
        leaveEvent();
        beginUnreadNode();
        break;
      case Kind::kUnpack:
        unpack(event.id);
        break;
      case Kind::kRelease:
        noteRelease(trace_.use_value.at(event.id));
        leaveEvent();
        break;
      case Kind::kLastReference:
        last_reference_.at(event.id) = here();
        break;
      case Kind::kMessage:
        if (!trace_.messages.at(event.id).receive) {
          at_ns_ = before_ns;
          return;
        }
        ++asked_for_;
        break;
      case Kind::kScopeBegin:
      case Kind::kScopeEnd:
      case Kind::kBackwardPass:
        at_ns_ = before_ns;  // nothing in the graph comes of it
        return;
    }
    if (!in_op_ && !in_event_) addAwaited();
    if (!in_op_) addWaits();
  }

  OpId here() const { return static_cast<OpId>(out_.graph.ops.size()) - 1; }

  void change(BlockId block, int sign) {
    const TraceBlock& info = trace_.blocks.at(block);
    if (managed_[block] || persistent_[block] || info.ours) return;
    addFixed(sign * info.bytes);
  }

  void addFixed(Bytes bytes) {
    fixed_ += bytes;
    if (!out_.graph.ops.empty() && !in_gap_) {
      Op& op = out_.graph.ops.back();
      op.fixed_bytes = std::max(op.fixed_bytes, fixed_);
      if (!op.backward && !op.waits)
        op.workspace_bytes = std::max(op.workspace_bytes, fixed_ - op_start_);
    } else {
      gap_peak_ = std::max(gap_peak_, fixed_);
    }
  }

  // Until the op or event ends in which it is allocated, the block is part of that.
  void awaitGraphInput(BlockId block) {
    if (source_in_[block] == kNone) return;
    if (!in_op_ && !in_event_) {
      addGraphInput(source_in_[block]);
      return;
    }
    addFixed(trace_.blocks[block].bytes);
    awaited_.push_back(block);
  }

  // Freed before it could become a value of the graph: bytes of that op or event alone.
  void forgetGraphInput(BlockId block) {
    if (std::erase(awaited_, block) == 0) return;
    addFixed(-trace_.blocks[block].bytes);
    shared_[block] = true;
  }

  void addAwaited() {
    for (const BlockId block : awaited_) {
      fixed_ -= trace_.blocks[block].bytes;
      addGraphInput(source_in_[block]);
    }
    awaited_.clear();
  }

  // As the output of an op that does nothing else.
  void addGraphInput(ValueId value) {
    Op op;
    op.name = "inputs";
    op.outputs = {value};
    pushOp(std::move(op));
    born_at_[value] = here();
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
      pushOp(std::move(op));
      unread_ = true;
    }
  }

  // A backward event lasts until the next op or event begins: its kernels are not recorded one by
  // one.
  void endBackwardEvent() {
    if (out_.graph.ops.empty() || !out_.graph.ops.back().backward) return;
    out_.graph.ops.back().duration_ns = std::max<Nanoseconds>(0, at_ns_ - event_start_ns_);
  }

  void pushOp(Op op, OpId trace_op = kNone) {
    endBackwardEvent();
    event_start_ns_ = at_ns_;
    closeGap();
    if (out_.graph.ops.empty()) before_first_ = gap_peak_;
    op_start_ = fixed_;
    op.fixed_bytes = op.fixed_at_start = std::max<Bytes>(fixed_, 0);
    out_.graph.ops.push_back(std::move(op));
    out_.event_of.push_back(event_);
    out_.trace_op_of.push_back(trace_op);
    in_gap_ = false;
  }

  void beginOp(OpId id) {
    if (id != next_op_)
      throw std::invalid_argument("trace: ops out of order at op " + std::to_string(id));
    ++next_op_;
    if (in_event_ && !awaited_.empty()) {  // of a kept graph: nothing was released since
      leaveEvent();
      addAwaited();
    }
    for (const auto& [value, before] : written_before_[id]) {
      addGraphInput(value);
      takes_over_[value] = before;
    }
    const TraceOp& recorded = trace_.ops.at(id);
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
    in_event_ = false;
    unread_ = true;
    in_op_ = true;
    pushOp(std::move(op), id);
    out_.op_of_trace_op.at(id) = here();
  }

  // The first node or, where a program asks for what was saved, the first unpack.
  void noteBackward() {
    if (std::exchange(seen_backward_, true)) return;
    activation_mark_ = fixed_;
    first_backward_ = here() + 1;
  }

  void unpack(UseId use) {
    const ValueId value = trace_.use_value.at(use);
    noteBackward();
    if (!in_event_) {
      Op op;
      op.name = "backward";
      op.backward = true;
      pushOp(std::move(op));
      in_event_ = true;
      unread_ = false;
    }
    std::vector<OpId>& events = out_.events_of_use[use];
    if (events.empty() || events.back() != here()) events.push_back(here());
    if (value == kNone) return;
    std::vector<ValueId>& inputs = out_.graph.ops.back().inputs;
    if (std::find(inputs.begin(), inputs.end(), value) == inputs.end()) inputs.push_back(value);
  }

  // Up to the present op, or the gap behind it once that has made something.
  void noteRelease(ValueId value) {
    if (value == kNone) return;
    --to_release_[value];
    if (in_gap_ && gap_peak_ > gap_start_)
      released_in_gap_.push_back(value);
    else
      released_at_[value] = here();
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
    if (!unread_ || out_.graph.ops.empty()) return;
    closeGap();
    beginGap();
  }

  void beginGap() {
    in_gap_ = true;
    gap_event_ = event_;
    gap_peak_ = gap_start_ = fixed_;
  }

  void closeGap() {
    if (!in_gap_ || out_.graph.ops.empty()) return;
    in_gap_ = false;
    if (gap_peak_ > out_.graph.ops.back().fixed_bytes) {  // else the event itself dominates it
      Op gap;
      gap.name = "backward";
      gap.backward = true;
      gap.fixed_bytes = gap_peak_;
      out_.graph.ops.push_back(std::move(gap));
      out_.event_of.push_back(gap_event_);
      out_.trace_op_of.push_back(kNone);
    }
    for (const ValueId v : released_in_gap_) released_at_[v] = here();
    released_in_gap_.clear();
  }

  void finishValues() {
    Graph& graph = out_.graph;
    if (graph.ops.empty()) return;
    graph.ops.front().fixed_bytes = std::max(graph.ops.front().fixed_bytes, peakBeforeFirstOp());
    const OpId last = here();
    std::vector<bool> counted(trace_.blocks.size(), false);
    for (std::size_t v = 0; v < trace_.values.size(); ++v) {
      const TraceValue& recorded = trace_.values[v];
      Value value;
      value.producer =
          recorded.producer == kNone ? born_at_[v] : out_.op_of_trace_op.at(recorded.producer);
      value.previous_epoch = recorded.previous_epoch;
      value.overwritten_by = recorded.overwritten_by == kNone || recorded.overwritten_by >= next_op_
                                 ? kNone
                                 : out_.op_of_trace_op.at(recorded.overwritten_by);
      value.pinned = recorded.parameter || recorded.block == kNone || isShared(recorded);
      if (takes_over_[v] != kNone) value.previous_epoch = takes_over_[v];
      if (isShared(recorded)) value.previous_epoch = value.overwritten_by = kNone;
      if (recorded.block != kNone && !value.pinned) {
        const TraceBlock& block = trace_.blocks.at(recorded.block);
        value.bytes = block.bytes;
        OpId death = last_reference_[v];
        if (death == kNone) death = block_freed_at_[recorded.block];
        value.last_reference = death == kNone ? last : death;
        // A later epoch takes the bytes over.
        if (value.overwritten_by != kNone)
          value.last_reference = std::min(value.last_reference, value.overwritten_by);
      }
      graph.values.push_back(value);
    }
    for (std::size_t v = 0; v < takes_over_.size(); ++v) {
      if (takes_over_[v] == kNone) continue;
      Value& before = graph.values[takes_over_[v]];
      before.overwritten_by = graph.values[v].producer;
      before.last_reference = std::min(before.last_reference, before.overwritten_by);
    }
    out_.activation_bytes = activationBytes(last);
    keepLostParameters();
    noteSavedLonger(last);
  }

  // A parameter whose memory goes away in mid-step: gathered again unseen (FSDP), or a leaf of the
  // step's own. Ops that read it are not run again if that might be asked of them later.
  void keepLostParameters() {
    Graph& graph = out_.graph;
    std::vector<OpId> replayed_until(graph.values.size(), kNone);  // at the latest
    for (OpId id = here(); id >= 0; --id) {
      Op& op = graph.ops[id];
      OpId until = op.backward ? id : kNone;
      for (const ValueId v : op.outputs) until = std::max(until, replayed_until[v]);
      const auto lost = [this, until](ValueId v) {
        const TraceValue& value = trace_.values[v];
        if (!value.parameter || value.block == kNone) return false;
        return block_freed_at_[value.block] != kNone && block_freed_at_[value.block] < until;
      };
      if (op.rerunnable && std::any_of(op.inputs.begin(), op.inputs.end(), lost))
        op.rerunnable = false;
      if (!op.backward && !op.rerunnable) continue;
      for (const ValueId v : op.inputs) replayed_until[v] = std::max(replayed_until[v], until);
    }
  }

  // Graphs that are kept: what their saved tensors hold longer than anybody reads it.
  void noteSavedLonger(OpId last) {
    Graph& graph = out_.graph;
    for (std::size_t v = 0; v < released_at_.size(); ++v)
      graph.values[v].saved_last = to_release_[v] > 0 ? last : released_at_[v];
    std::vector<OpId> read_at(graph.values.size(), kNone);
    for (OpId i = 0; i <= last; ++i) {
      for (const ValueId v : graph.ops[i].inputs) read_at[v] = i;
    }
    for (std::size_t v = 0; v < graph.values.size(); ++v) {
      Value& value = graph.values[v];
      const bool longer = value.saved_last > std::max(read_at[v], value.last_reference);
      if (!longer || value.pinned || value.overwritten_by != kNone) value.saved_last = kNone;
    }
  }

  Bytes peakBeforeFirstOp() const { return before_first_; }

  // Values alive when the first backward event begins, with nothing dropped, and the unmanaged
  // growth.
  Bytes activationBytes(OpId last) const {
    if (!seen_backward_) return 0;
    const Graph& graph = out_.graph;
    std::vector<OpId> last_read(graph.values.size(), kNone);
    for (OpId i = 0; i <= last; ++i) {
      for (ValueId v : graph.ops[i].inputs) last_read[v] = i;
    }
    Bytes live = activation_mark_ - trace_.base_bytes - persistent_bytes_;
    for (std::size_t v = 0; v < graph.values.size(); ++v) {
      const Value& value = graph.values[v];
      if (value.pinned || value.producer >= first_backward_) continue;
      if (value.overwritten_by != kNone && value.overwritten_by < first_backward_) continue;
      const bool read_in_backward = last_read[v] >= first_backward_;
      if (value.last_reference >= first_backward_ || read_in_backward) live += value.bytes;
    }
    return live;
  }

  const Trace& trace_;
  TraceGraph out_;
  std::vector<bool> shared_;
  std::vector<bool> managed_;       // blocks whose lifetime the schedule decides
  std::vector<bool> persistent_;    // GraphOptions::first_step
  std::vector<ValueId> source_in_;  // of a block that is allocated in mid-step; kNone: another one
  // allocated such blocks whose graph inputs are not in the graph yet
  std::vector<BlockId> awaited_;
  int asked_for_ = 0;          // messages that the op at hand receives
  std::vector<OpId> born_at_;  // of such graph inputs, and of those that take blocks over
  // Per trace op: graph inputs that were written before it, and what they were written over.
  std::vector<std::vector<std::pair<ValueId, ValueId>>> written_before_;
  std::vector<ValueId> takes_over_;  // per value; kNone: it is no such graph input
  std::vector<OpId> block_freed_at_;
  std::vector<OpId> last_reference_;
  std::vector<OpId> released_at_;         // per value: when its last saved tensor was
  std::vector<std::int32_t> to_release_;  // per value: saved tensors that were not
  std::vector<ValueId> released_in_gap_;
  std::size_t event_ = 0;      // that is applied
  std::size_t gap_event_ = 0;  // with which the present gap begins
  Nanoseconds at_ns_ = 0;
  Nanoseconds event_start_ns_ = 0;
  Bytes fixed_ = 0;
  Bytes gap_peak_ = 0, gap_start_ = 0;
  Bytes op_start_ = 0;
  Bytes before_first_ = 0;
  Bytes persistent_bytes_ = 0;
  Bytes activation_mark_ = 0;
  OpId first_backward_ = kNone;
  OpId next_op_ = 0;
  bool in_op_ = false;
  bool in_event_ = false;
  bool unread_ = true;
  bool in_gap_ = false;
  bool seen_backward_ = false;
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
