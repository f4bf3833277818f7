#include "search/retention.hpp"

#include <algorithm>

namespace ebbtide::scheduler {

ScheduleBuilder::ScheduleBuilder(const Graph& graph)
    : graph_(graph),
      droppable_(graph.values.size(), false),
      event_read_(graph.values.size(), kNone),
      last_need_(graph.values.size(), kNone),
      expiry_(graph.ops.size()),
      writer_(graph) {
  std::vector<OpId> until(graph.values.size(), kNone);
  for (std::size_t id = 0; id < graph.ops.size(); ++id) {
    const OpId op = static_cast<OpId>(id);
    for (ValueId input : graph.ops[id].inputs) {
      if (graph.values[input].pinned) continue;
      (graph.ops[id].backward ? event_read_ : until)[input] = op;
      if (!graph.programServes(op, input)) last_need_[input] = op;
    }
  }
  for (std::size_t id = 0; id < graph.values.size(); ++id) {
    const Value& value = graph.values[id];
    until[id] = std::max({until[id], value.last_reference, value.producer});
  }
  computeNeeds();
  for (std::size_t id = 0; id < graph.values.size(); ++id) {
    if (droppable_[id]) expiry_[until[id]].push_back(static_cast<ValueId>(id));
  }
}

// A value is droppable if a replay can still make it at the last position where anything may want
// it: a reader, or a replay (for such a position) of an op that reads it. Consumers first.
void ScheduleBuilder::computeNeeds() {
  const std::vector<OpId> last_replay = lastReplayPositions(graph_);
  for (std::size_t id = graph_.ops.size(); id-- > 0;) {
    const Op& op = graph_.ops[id];
    OpId replayed_until = kNone;
    for (ValueId output : op.outputs) {
      droppable_[output] = !graph_.values[output].pinned && op.rerunnable &&
                           last_replay[output] >= last_need_[output];
      if (droppable_[output]) replayed_until = std::max(replayed_until, last_need_[output]);
    }
    for (ValueId input : op.inputs) {
      if (!graph_.values[input].pinned) {
        last_need_[input] = std::max(last_need_[input], replayed_until);
      }
    }
  }
}

Retention ScheduleBuilder::keepAll() const {
  Retention retention;
  retention.keep.resize(graph_.values.size());
  for (std::size_t id = 0; id < graph_.values.size(); ++id) {
    retention.keep[id] = event_read_[id] != kNone;
  }
  retention.memo.assign(graph_.values.size(), true);
  return retention;
}

void ScheduleBuilder::replay(OpId op, OpId reader, const Retention& retention) {
  for (ValueId output : graph_.ops[op].outputs) {
    if (graph_.values[output].pinned || writer_.hasCopy(output)) continue;
    const bool early = !retention.memo_from.empty() && reader < retention.memo_from[output];
    if (early || !retention.memo[output]) event_copies_.push_back(output);
  }
  writer_.replay(op);
}

void ScheduleBuilder::expire(OpId op, const Retention& retention) {
  for (ValueId value : event_copies_) writer_.forget(value);
  event_copies_.clear();
  for (ValueId value : expiry_[op]) {
    if (!retention.keep[value] && writer_.hasFirstCopy(value)) writer_.forget(value);
  }
}

Schedule ScheduleBuilder::build(const Retention& retention) {
  writer_.begin();
  event_copies_.clear();
  for (std::size_t id = 0; id < graph_.ops.size(); ++id) {
    const OpId op = static_cast<OpId>(id);
    for (OpId again : writer_.missingFor(op)) replay(again, op, retention);
    writer_.firstRun(op);
    expire(op, retention);
  }
  return writer_.schedule();
}

Schedule buildSchedule(const Graph& graph, const Retention& retention) {
  return ScheduleBuilder(graph).build(retention);
}

}  // namespace ebbtide::scheduler
