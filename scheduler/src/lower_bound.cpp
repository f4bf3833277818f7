// Bytes that no schedule without offload can avoid, op by op.
//
//   value:   birth ..... program lets go ........ last possible replay ....... last read
//   counted: |===================|                          |===================|
//   and, outside these two intervals, wherever the running op reads or writes it.
#include <algorithm>
#include <utility>
#include <vector>

#include "ebbtide/scheduler/simulator.hpp"

namespace ebbtide::scheduler {
namespace {

// Ops, both ends included; empty if to < from.
struct Interval {
  OpId from = 0;
  OpId to = kNone;
  bool holds(OpId op) const { return from <= op && op <= to; }
};

// Per value: the last read that only the schedule can serve.
std::vector<OpId> lastScheduleReads(const Graph& graph) {
  std::vector<OpId> last(graph.values.size(), kNone);
  for (std::size_t id = 0; id < graph.ops.size(); ++id) {
    const OpId op = static_cast<OpId>(id);
    for (ValueId input : graph.ops[id].inputs) {
      const bool program_serves = !graph.ops[id].backward && graph.values[input].natural_last >= op;
      if (!program_serves) last[input] = op;
    }
  }
  return last;
}

// The two intervals of a value, apart from each other.
std::pair<Interval, Interval> unavoidable(const Value& value, OpId last_replay, OpId last_read) {
  if (value.pinned) return {};
  const OpId birth = std::max(value.producer, 0);
  Interval program{birth, value.natural_last};
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
  const std::vector<OpId> last_replay = lastReplayPositions(graph);
  const std::vector<OpId> last_read = lastScheduleReads(graph);
  std::vector<std::pair<Interval, Interval>> intervals(graph.values.size());
  std::vector<Bytes> change(ops + 1, 0);  // of the live bytes when an op begins
  for (std::size_t id = 0; id < graph.values.size(); ++id) {
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
    Bytes own = 0;
    for (const auto* list : {&graph.ops[id].inputs, &graph.ops[id].outputs}) {
      for (ValueId value : *list) {
        const auto& [program, reads] = intervals[value];
        const bool counted = program.holds(op) || reads.holds(op);
        const bool taken_over = graph.values[value].overwritten_by == op;
        if (!graph.values[value].pinned && !counted && !taken_over)
          own += graph.values[value].bytes;
      }
    }
    bound = std::max(bound, live + own + graph.ops[id].fixed_bytes);
  }
  return bound;
}

}  // namespace ebbtide::scheduler
