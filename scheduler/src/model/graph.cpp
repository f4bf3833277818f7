#include "ebbtide/scheduler/graph.hpp"

#include <algorithm>
#include <limits>
#include <stdexcept>

#include "ebbtide/scheduler/most_amount.hpp"

namespace ebbtide::scheduler {
namespace {

constexpr std::int64_t kMaxSum = std::numeric_limits<std::int64_t>::max();

// Sum of values that are not negative, held at kMaxSum once it would pass it.
std::int64_t addCapped(std::int64_t sum, std::int64_t term) {
  return term > kMaxSum - sum ? kMaxSum : sum + term;
}

[[noreturn]] void fail(const std::string& what) {
  throw std::invalid_argument(what);
}

std::string opName(const Graph& graph, OpId op) {
  return "op " + std::to_string(op) + " (" + graph.ops[op].name + ")";
}

std::string valueName(ValueId value) {
  return "value " + std::to_string(value);
}

bool isIndex(std::int32_t id, std::size_t size) {
  return id >= 0 && static_cast<std::size_t>(id) < size;
}

void checkWait(const Graph& graph, OpId id) {
  const Op& op = graph.ops[id];
  if (!op.inputs.empty() || !op.outputs.empty()) {
    fail(opName(graph, id) + " waits and reads or makes values");
  }
  if (op.rerunnable) fail(opName(graph, id) + " waits and is rerunnable");
  if (op.backward) fail(opName(graph, id) + " waits and is backward");
  if (graph.any_order) fail(opName(graph, id) + " waits in a graph of any order");
}

void checkOp(const Graph& graph, OpId id, std::vector<OpId>& last_seen) {
  const Op& op = graph.ops[id];
  if (op.duration_ns < 0) fail(opName(graph, id) + " has a negative duration");
  if (op.workspace_bytes < 0) fail(opName(graph, id) + " has a negative workspace");
  if (op.fixed_bytes < 0) fail(opName(graph, id) + " has negative fixed bytes");
  if (op.fixed_at_start < kNone || op.fixed_at_start > op.fixed_bytes) {
    fail(opName(graph, id) + " has fixed bytes at its start that are not within its fixed bytes");
  }
  if (op.backward && op.rerunnable) fail(opName(graph, id) + " is backward and rerunnable");
  if (op.waits) checkWait(graph, id);
  for (ValueId value : op.inputs) {
    if (!isIndex(value, graph.values.size())) {
      fail(opName(graph, id) + " reads " + valueName(value) + ", which does not exist");
    }
    if (last_seen[value] == id) fail(opName(graph, id) + " lists " + valueName(value) + " twice");
    last_seen[value] = id;
    const Value& input = graph.values[value];
    if (input.producer >= id) {
      fail(opName(graph, id) + " reads " + valueName(value) + " before it is produced");
    }
    if (input.overwritten_by != kNone && input.overwritten_by < id) {
      fail(opName(graph, id) + " reads " + valueName(value) + " after op " +
           std::to_string(input.overwritten_by) + " overwrote it");
    }
  }
}

void checkOutputs(const Graph& graph) {
  std::vector<bool> listed(graph.values.size(), false);
  for (std::size_t id = 0; id < graph.ops.size(); ++id) {
    const OpId op = static_cast<OpId>(id);
    for (ValueId value : graph.ops[id].outputs) {
      if (!isIndex(value, graph.values.size())) {
        fail(opName(graph, op) + " writes " + valueName(value) + ", which does not exist");
      }
      if (listed[value]) fail(opName(graph, op) + " writes " + valueName(value) + " again");
      if (graph.values[value].producer != op) {
        fail(opName(graph, op) + " writes " + valueName(value) + ", whose producer is another op");
      }
      listed[value] = true;
    }
  }
  for (std::size_t value = 0; value < graph.values.size(); ++value) {
    if (graph.values[value].producer != kNone && !listed[value]) {
      fail(valueName(static_cast<ValueId>(value)) + " is not among its producer's outputs");
    }
  }
}

void checkValue(const Graph& graph, ValueId id, std::vector<bool>& has_successor) {
  const Value& value = graph.values[id];
  const std::size_t ops = graph.ops.size();
  if (value.bytes < 0) fail(valueName(id) + " has negative bytes");
  for (OpId op : {value.producer, value.last_reference, value.saved_last, value.overwritten_by}) {
    if (op != kNone && !isIndex(op, ops)) {
      fail(valueName(id) + " names op " + std::to_string(op) + ", which does not exist");
    }
  }
  if (value.overwritten_by != kNone && value.overwritten_by <= value.producer) {
    fail(valueName(id) + " is overwritten before it is produced");
  }
  if (value.saved_last != kNone) {
    if (value.overwritten_by != kNone)
      fail(valueName(id) + " is saved beyond its last read, and overwritten");
    if (value.saved_last < value.producer) fail(valueName(id) + " is saved before it is produced");
  }
  const ValueId previous = value.previous_epoch;
  if (previous == kNone) return;
  if (!isIndex(previous, graph.values.size()) || previous == id) {
    fail(valueName(id) + " names " + valueName(previous) + " as its previous epoch");
  }
  if (value.producer == kNone) fail(valueName(id) + " is a source with a previous epoch");
  if (graph.values[previous].overwritten_by != value.producer) {
    fail(valueName(id) + " takes over " + valueName(previous) +
         ", which its producer does not overwrite");
  }
  if (has_successor[previous]) fail(valueName(previous) + " is taken over twice");
  has_successor[previous] = true;
}

// Positions in the program mean nothing there.
void checkAnyOrder(const Graph& graph) {
  for (std::size_t id = 0; id < graph.ops.size(); ++id) {
    const Op& op = graph.ops[id];
    if (op.fixed_bytes != 0) {
      fail(opName(graph, static_cast<OpId>(id)) + " has fixed bytes in a graph of any order");
    }
  }
  for (std::size_t id = 0; id < graph.values.size(); ++id) {
    const Value& value = graph.values[id];
    if (value.last_reference != kNone || value.saved_last != kNone ||
        value.overwritten_by != kNone) {
      fail(valueName(static_cast<ValueId>(id)) +
           " has a natural life or is overwritten in a graph of any order");
    }
  }
}

// Planners may add a few totals, and hold several copies of each value. Schedules may replay every
// op for every op.
void checkSums(const Graph& graph) {
  std::int64_t largest_op = 0;
  for (const Op& op : graph.ops) {
    largest_op = std::max(largest_op, addCapped(op.fixed_bytes, op.workspace_bytes));
  }
  if (addCapped(graph.totalValueBytes(), largest_op) > kMostAmount) {
    fail("the graph's bytes do not fit 60 bits");
  }
  const auto ops = static_cast<std::int64_t>(std::max<std::size_t>(graph.ops.size(), 1));
  if (graph.totalDurationNs() > kMostAmount / ops) {
    fail("the graph's durations do not fit 60 bits if each op runs once for every other");
  }
}

}  // namespace

Bytes Graph::totalValueBytes() const {
  Bytes sum = 0;
  for (const Value& value : values) {
    if (!value.pinned) sum = addCapped(sum, value.bytes);
  }
  return sum;
}

Nanoseconds Graph::totalDurationNs() const {
  Nanoseconds sum = 0;
  for (const Op& op : ops) sum = addCapped(sum, op.duration_ns);
  return sum;
}

bool Graph::keepsGraphs() const {
  return std::any_of(values.begin(), values.end(),
                     [](const Value& value) { return value.saved_last != kNone; });
}

bool Graph::hasBackward() const {
  return std::any_of(ops.begin(), ops.end(), [](const Op& op) { return op.backward; });
}

void checkGraph(const Graph& graph) {
  const std::size_t limit = std::numeric_limits<std::int32_t>::max();
  if (graph.ops.size() >= limit || graph.values.size() >= limit) {
    fail("the graph has more ops or values than 31 bits can name");
  }
  checkOutputs(graph);
  std::vector<bool> has_successor(graph.values.size(), false);
  for (std::size_t id = 0; id < graph.values.size(); ++id) {
    checkValue(graph, static_cast<ValueId>(id), has_successor);
  }
  std::vector<OpId> last_seen(graph.values.size(), kNone);
  for (std::size_t id = 0; id < graph.ops.size(); ++id) {
    checkOp(graph, static_cast<OpId>(id), last_seen);
  }
  if (graph.any_order) checkAnyOrder(graph);
  checkSums(graph);
}

std::vector<bool> replayPositions(const Graph& graph) {
  std::vector<bool> positions(graph.ops.size(), true);
  if (!graph.isRecordedStep()) return positions;
  for (std::size_t id = 0; id < graph.ops.size(); ++id) {
    positions[id] = graph.ops[id].backward && !graph.ops[id].inputs.empty();
  }
  return positions;
}

std::vector<OpId> lastReplayPositions(const Graph& graph) {
  const OpId end = static_cast<OpId>(graph.ops.size());
  std::vector<OpId> last(graph.values.size(), kNone);
  for (const Op& op : graph.ops) {
    if (!op.rerunnable) continue;
    OpId position = end;
    for (ValueId id : op.inputs) {
      const OpId overwritten = graph.values[id].overwritten_by;
      position = std::min(position, std::max(last[id], overwritten == kNone ? end : overwritten));
    }
    for (ValueId output : op.outputs) last[output] = position;
  }
  return last;
}

}  // namespace ebbtide::scheduler
