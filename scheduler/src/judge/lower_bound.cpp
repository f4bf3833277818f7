// Bytes that no schedule without offload can avoid, op by op.
//
//   value:   birth ..... program lets go ........ last possible replay ....... last read
//   counted: |===================|                          |===================|
//   and, outside these two intervals, wherever the running op reads or writes it.
#include <algorithm>
#include <utility>
#include <vector>

#include "ebbtide/scheduler/simulator.hpp"
#include "judge/schedule_reads.hpp"

namespace ebbtide::scheduler {
namespace {

// May a replay of what makes it leave a copy that outlives the program's write over the value? One
// that is made after the write, or while the program holds a first copy of its own.
bool outlivesWrite(const Value& value, OpId last_replay) {
  if (value.pinned || last_replay == kNone) return false;
  return last_replay > value.overwritten_by || value.last_reference >= value.overwritten_by;
}

// Per value: no replay makes it after the first run of this op (ops.size(): at any time, kNone:
// never). Planners have lastReplayPositions(), which is less where inputs that were made again
// would have to wait; this is computed apart from it, so that an error there cannot move the bound
// along.
std::vector<OpId> lastPossibleReplays(const Graph& graph) {
  const OpId always = static_cast<OpId>(graph.ops.size());
  std::vector<OpId> last(graph.values.size(), kNone);
  for (const Op& op : graph.ops) {  // inputs are made before outputs
    OpId until = op.rerunnable ? always : kNone;
    for (ValueId input : op.inputs) {
      const OpId written = graph.values[input].overwritten_by;  // till then it may be retained
      if (written == kNone || outlivesWrite(graph.values[input], last[input])) continue;
      until = std::min(until, written);
    }
    for (ValueId output : op.outputs) last[output] = until;
  }
  return last;
}

// Ops, both ends included; empty if to < from.
struct Interval {
  OpId from = 0;
  OpId to = kNone;
  bool holds(OpId op) const { return from <= op && op <= to; }
};

// The two intervals of a value, apart from each other.
std::pair<Interval, Interval> unavoidable(const Value& value, OpId last_replay, OpId last_read) {
  if (value.pinned) return {};
  const OpId birth = std::max(value.producer, 0);
  Interval program{birth, value.last_reference};
  Interval reads{std::max(birth, last_replay), last_read};
  if (value.overwritten_by != kNone) {  // from there on the bytes are the next epoch's
    program.to = std::min(program.to, value.overwritten_by - 1);
    reads.to = std::min(reads.to, value.overwritten_by - 1);
  }
  reads.from = std::max(reads.from, program.to + 1);
  return {program, reads};
}

}  // namespace

Bytes peakLowerBound(const Graph& graph) {
  const std::size_t ops = graph.ops.size();
  const std::vector<OpId> last_replay = lastPossibleReplays(graph);
  const std::vector<OpId> last_read = lastScheduleReads(graph);
  std::vector<std::pair<Interval, Interval>> intervals(graph.values.size());
  std::vector<Bytes> change(ops + 1, 0);  // of the live bytes when an op begins
  for (std::size_t id = 0; id < graph.values.size(); ++id) {
    if (graph.any_order) break;  // ids of ops are no positions there
    intervals[id] = unavoidable(graph.values[id], last_replay[id], last_read[id]);
    for (const Interval& interval : {intervals[id].first, intervals[id].second}) {
      if (interval.to < interval.from) continue;
      change[interval.from] += graph.values[id].bytes;
      change[interval.to + 1] -= graph.values[id].bytes;
    }
  }
  Bytes bound = 0;
  Bytes live = 0;
  for (std::size_t id = 0; id < ops; ++id) {
    const OpId op = static_cast<OpId>(id);
    live += change[id];
    const auto ownBytes = [&](ValueId value) -> Bytes {
      const auto& [program, reads] = intervals[value];
      const bool counted = program.holds(op) || reads.holds(op);
      const bool taken_over = graph.values[value].overwritten_by == op;
      return graph.values[value].pinned || counted || taken_over ? 0 : graph.values[value].bytes;
    };
    Bytes own = 0;
    for (ValueId value : graph.ops[id].inputs) own += ownBytes(value);
    Bytes made = 0;  // lazy outputs: each that is read is made by some run, alone if need be
    for (ValueId value : graph.ops[id].outputs) {
      if (!graph.lazy_outputs) {
        made += ownBytes(value);
      } else if (last_read[value] != kNone) {
        made = std::max(made, ownBytes(value));
      }
    }
    bound = std::max(bound, live + own + made + graph.ops[id].fixed_bytes);
  }
  return bound;
}

}  // namespace ebbtide::scheduler
