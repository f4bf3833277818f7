#include "ebbtide/scheduler/encoded_values.hpp"

#include <algorithm>
#include <limits>
#include <utility>

namespace ebbtide::scheduler {
namespace {

constexpr Nanoseconds kNever = std::numeric_limits<Nanoseconds>::max();

// Time to run `id` again and, before it, the ops whose results it wrote over: those are gone. In a
// checked graph each of them comes before the next, so this ends.
Nanoseconds replayNs(const Graph& graph, OpId id) {
  Nanoseconds sum = 0;
  while (id != kNone) {
    const Op& op = graph.ops[id];
    if (!op.rerunnable) return kNever;
    sum += op.duration_ns;
    OpId before = kNone;
    for (const ValueId v : op.outputs) {
      const ValueId previous = graph.values[v].previous_epoch;
      if (previous != kNone) before = graph.values[previous].producer;
    }
    id = before;
  }
  return sum;
}

std::vector<bool> readInBackward(const Graph& graph) {
  std::vector<bool> read(graph.values.size(), false);
  for (const Op& op : graph.ops) {
    if (!op.backward) continue;
    for (const ValueId v : op.inputs) read[v] = true;
  }
  return read;
}

// By the op that makes them, so by their decoding ops.
std::vector<ValueId> worthEncoding(const Trace& trace, const Graph& graph) {
  const std::vector<bool> read = readInBackward(graph);
  std::vector<ValueId> chosen;
  for (const Op& op : graph.ops) {
    if (op.backward || op.outputs.size() != 1) continue;
    const ValueId id = op.outputs.front();
    const TraceValue& recorded = trace.values[id];
    const Value& value = graph.values[id];
    if (recorded.encoded_bytes == 0 || recorded.encoded_bytes >= value.bytes / 2) continue;
    if (!read[id] || value.pinned || value.overwritten_by != kNone) continue;
    if (recorded.codec_ns < replayNs(graph, value.producer)) chosen.push_back(id);
  }
  return chosen;
}

// Rebuilds the list of ops with a decoding one behind each maker of an encoded value.
class Inserter {
 public:
  Inserter(const Trace& trace, TraceGraph& step, const std::vector<ValueId>& encoded)
      : trace_(trace), step_(step), encoded_(encoded) {}

  void insert() {
    moved_.reserve(ops().size());
    std::size_t next = 0;
    OpId place = 0;
    for (std::size_t id = 0; id < ops().size(); ++id) {
      moved_.push_back(place++);
      const bool maker = next < encoded_.size() && values()[encoded_[next]].producer == asOp(id);
      if (maker) ++place, ++next;
    }
    rename();
    std::vector<Op> old = std::exchange(ops(), {});
    const std::vector<OpId> trace_ops = std::exchange(step_.trace_op_of, {});
    next = 0;
    for (std::size_t id = 0; id < old.size(); ++id) {
      ops().push_back(std::move(old[id]));
      step_.trace_op_of.push_back(trace_ops[id]);
      step_.decodes.push_back(kNone);
      if (next == encoded_.size() || values()[encoded_[next]].producer != moved_[id]) continue;
      const Op& following = id + 1 < old.size() ? old[id + 1] : ops().back();
      addDecode(encoded_[next++], following);
    }
  }

 private:
  std::vector<Op>& ops() { return step_.graph.ops; }
  std::vector<Value>& values() { return step_.graph.values; }
  static OpId asOp(std::size_t id) { return static_cast<OpId>(id); }

  void move(OpId& id) const {
    if (id != kNone) id = moved_[id];
  }

  void rename() {
    for (Value& value : values()) {
      move(value.producer);
      move(value.natural_last);
      move(value.overwritten_by);
    }
    for (OpId& id : step_.op_of_trace_op) move(id);
    for (auto& events : step_.events_of_use) {
      for (OpId& id : events) move(id);
    }
  }

  // The maker is the last op of the list so far.
  void addDecode(ValueId id, const Op& following) {
    const OpId maker = asOp(ops().size()) - 1;
    const OpId here = maker + 1;
    Value& value = values()[id];
    Value birth = value;
    birth.natural_last = birth.overwritten_by = here;
    Value encoded;
    encoded.bytes = trace_.values[id].encoded_bytes;
    encoded.producer = maker;
    const auto birth_id = static_cast<ValueId>(values().size());
    const ValueId encoded_id = birth_id + 1;
    value.producer = here;
    value.previous_epoch = birth_id;
    if (value.natural_last != kNone) value.natural_last = std::max(value.natural_last, here);
    values().push_back(birth);
    values().push_back(encoded);

    ops().back().rerunnable = false;
    ops().back().outputs = {birth_id, encoded_id};
    Op decode;
    decode.name = "decode " + ops().back().name;
    decode.duration_ns = trace_.values[id].codec_ns;
    decode.fixed_bytes = decode.fixed_at_start = following.fixedAtStart();
    decode.rerunnable = true;
    decode.inputs = {encoded_id};
    decode.outputs = {id};
    ops().push_back(std::move(decode));
    step_.trace_op_of.push_back(kNone);
    step_.decodes.push_back(id);
  }

  const Trace& trace_;
  TraceGraph& step_;
  const std::vector<ValueId>& encoded_;
  std::vector<OpId> moved_;
};

}  // namespace

void addEncodedValues(const Trace& trace, TraceGraph& graph) {
  graph.decodes.clear();
  Inserter(trace, graph, worthEncoding(trace, graph.graph)).insert();
  checkGraph(graph.graph);
}

}  // namespace ebbtide::scheduler
