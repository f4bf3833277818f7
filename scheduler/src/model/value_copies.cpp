#include "ebbtide/scheduler/value_copies.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <string>
#include <utility>

namespace ebbtide::scheduler {
namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();
constexpr Nanoseconds kMostRestoreNs = 1'000'000'000'000;
// An op gives up its second run for copies of its outputs if what has none is smaller by this.
constexpr Bytes kLargestToOther = 16;

struct ValueCopy {
  ValueId value = kNone;
  CopyKind kind = CopyKind::kBits;
  Bytes bytes = 0;  // of the budget
  Nanoseconds restore_ns = 0;
};

// Time to run `id` again and, before it, the ops whose results it wrote over: those are gone. In a
// checked graph each of them comes before the next, so this ends.
double replayNs(const Graph& graph, OpId id) {
  double sum = 0;
  while (id != kNone) {
    const Op& op = graph.ops[id];
    if (!op.rerunnable) return kNever;
    sum += static_cast<double>(op.duration_ns);
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

// Of those that it may have: the quicker one, or the one on the host.
std::optional<ValueCopy> copyOf(const Trace& trace, const Graph& graph, ValueId id,
                                bool rather_on_host) {
  std::optional<ValueCopy> found;
  const TraceValue& recorded = trace.values[id];
  const Bytes bytes = graph.values[id].bytes;
  if (recorded.encoded_bytes > 0 && recorded.encoded_bytes < bytes / 2) {
    found = {id, CopyKind::kBits, recorded.encoded_bytes, recorded.codec_ns};
  }
  const HostCopies& host = trace.host;
  if (host.bytes_per_second == 0 || bytes < std::max<Bytes>(1, host.least_bytes)) return found;
  const double ns = 1e9 * static_cast<double>(bytes) / static_cast<double>(host.bytes_per_second);
  if (ns >= static_cast<double>(kMostRestoreNs)) return found;
  const auto restore_ns = static_cast<Nanoseconds>(std::ceil(ns));
  if (!found || restore_ns < found->restore_ns || rather_on_host)
    found = {id, CopyKind::kHost, 0, restore_ns};
  return found;
}

// By the op that makes the values, so by their restoring ops.
std::vector<ValueCopy> worthCopying(const Trace& trace, const Graph& graph, double times) {
  const std::vector<bool> read = readInBackward(graph);
  std::vector<ValueCopy> chosen;
  for (const Op& op : graph.ops) {
    if (op.backward) continue;
    const std::size_t before = chosen.size();
    Bytes copied = 0, others = 0;
    for (const ValueId id : op.outputs) {
      const Value& value = graph.values[id];
      const bool recorded = trace.values[id].producer != kNone;
      const bool wanted = recorded && read[id] && !value.pinned && value.overwritten_by == kNone;
      const auto copy = wanted ? copyOf(trace, graph, id, std::isinf(times)) : std::nullopt;
      if (copy && static_cast<double>(copy->restore_ns) < times * replayNs(graph, value.producer)) {
        chosen.push_back(*copy);
        copied += value.bytes;
      } else {
        others += value.bytes;
      }
    }
    if (op.rerunnable && others > copied / kLargestToOther) chosen.resize(before);
  }
  return chosen;
}

// Rebuilds the list of ops with restoring ones behind each maker of values that have copies.
class Inserter {
 public:
  Inserter(TraceGraph& step, const std::vector<ValueCopy>& copies) : step_(step), copies_(copies) {}

  void insert() {
    moveOps();
    std::vector<Op> old = std::exchange(ops(), {});
    const std::vector<OpId> trace_ops = std::exchange(step_.trace_op_of, {});
    const std::vector<std::size_t> events = std::exchange(step_.event_of, {});
    step_.restores.clear();
    std::size_t next = 0;
    for (std::size_t id = 0; id < old.size(); ++id) {
      const OpId maker = asOp(ops().size());
      ops().push_back(std::move(old[id]));
      step_.trace_op_of.push_back(trace_ops[id]);
      if (!events.empty()) step_.event_of.push_back(events[id]);
      step_.restores.emplace_back();
      const Op& following = id + 1 < old.size() ? old[id + 1] : ops().back();
      const Bytes fixed_bytes = following.fixedAtStart();
      for (; next < copies_.size() && values()[copies_[next].value].producer == maker; ++next) {
        addRestore(copies_[next], maker, fixed_bytes);
      }
    }
  }

 private:
  std::vector<Op>& ops() { return step_.graph.ops; }
  std::vector<Value>& values() { return step_.graph.values; }
  static OpId asOp(std::size_t id) { return static_cast<OpId>(id); }

  // To where each op stands when the restoring ones are there.
  void moveOps() {
    moved_.reserve(ops().size());
    std::size_t next = 0;
    OpId place = 0;
    for (std::size_t id = 0; id < ops().size(); ++id) {
      moved_.push_back(place++);
      while (next < copies_.size() && values()[copies_[next].value].producer == asOp(id)) {
        ++place, ++next;
      }
    }
    for (Value& value : values()) {
      move(value.producer);
      move(value.last_reference);
      move(value.saved_last);
      move(value.overwritten_by);
    }
    for (OpId& id : step_.op_of_trace_op) move(id);
    for (auto& events : step_.events_of_use) {
      for (OpId& id : events) move(id);
    }
  }

  void move(OpId& id) const {
    if (id != kNone) id = moved_[id];
  }

  void addRestore(const ValueCopy& copied, OpId maker, Bytes fixed_bytes) {
    const OpId here = asOp(ops().size());
    Value& value = values()[copied.value];
    Value birth = value;
    birth.last_reference = birth.overwritten_by = here;
    birth.saved_last = kNone;
    Value copy;
    copy.bytes = copied.bytes;
    copy.producer = maker;
    const auto birth_id = static_cast<ValueId>(values().size());
    const ValueId copy_id = birth_id + 1;
    value.producer = here;
    value.previous_epoch = birth_id;
    if (value.last_reference != kNone) value.last_reference = std::max(value.last_reference, here);
    values().push_back(birth);
    values().push_back(copy);

    Op& made_by = ops()[maker];
    made_by.rerunnable = false;
    std::replace(made_by.outputs.begin(), made_by.outputs.end(), copied.value, birth_id);
    made_by.outputs.push_back(copy_id);
    Op restore;
    restore.name = (copied.kind == CopyKind::kBits ? "decode " : "fetch ") + made_by.name;
    restore.duration_ns = copied.restore_ns;
    restore.fixed_bytes = restore.fixed_at_start = fixed_bytes;
    restore.rerunnable = true;
    restore.inputs = {copy_id};
    restore.outputs = {copied.value};
    ops().push_back(std::move(restore));
    step_.trace_op_of.push_back(kNone);
    if (!step_.event_of.empty()) step_.event_of.push_back(step_.event_of.back());
    step_.restores.push_back({copied.value, copied.kind});
  }

  TraceGraph& step_;
  const std::vector<ValueCopy>& copies_;
  std::vector<OpId> moved_;
};

}  // namespace

void addValueCopies(const Trace& trace, TraceGraph& graph, double times) {
  Inserter(graph, worthCopying(trace, graph.graph, times)).insert();
  checkGraph(graph.graph);
}

}  // namespace ebbtide::scheduler
