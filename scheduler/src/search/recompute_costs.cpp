#include "search/recompute_costs.hpp"

namespace ebbtide::scheduler {

void RecomputeCosts::update(const Retention& retention) {
  const std::size_t values = graph_.values.size();
  kept_.assign(values, true);
  uses_.assign(values, 0);
  wanted_outputs_.assign(graph_.ops.size(), 0);
  for (std::size_t id = 0; id < values; ++id) {
    const ValueId value = static_cast<ValueId>(id);
    kept_[id] = retention.keep[id] || !builder_.droppable(value);
    uses_[id] = builder_.readByEvents(value) ? 1 : 0;
  }
  for (std::size_t id = graph_.ops.size(); id-- > 0;) {
    const Op& op = graph_.ops[id];
    for (ValueId output : op.outputs) {
      if (!kept_[output] && uses_[output] > 0) ++wanted_outputs_[id];
    }
    if (wanted_outputs_[id] == 0) continue;
    for (ValueId input : op.inputs) ++uses_[input];
  }
}

Nanoseconds RecomputeCosts::dropCost(ValueId value) {
  const OpId producer = graph_.values[value].producer;
  if (uses_[value] == 0 || replayed(producer)) return 0;
  Nanoseconds cost = 0;
  ++present_stamp_;
  stamp_[producer] = present_stamp_;
  stack_.push_back(producer);
  while (!stack_.empty()) {
    const OpId op = stack_.back();
    stack_.pop_back();
    cost += graph_.ops[op].duration_ns;
    for (ValueId input : graph_.ops[op].inputs) {
      if (kept_[input]) continue;
      const OpId next = graph_.values[input].producer;
      if (replayed(next) || stamp_[next] == present_stamp_) continue;
      stamp_[next] = present_stamp_;
      stack_.push_back(next);
    }
  }
  return cost;
}

Nanoseconds RecomputeCosts::keepSaving(ValueId value) {
  if (kept_[value] || uses_[value] == 0) return 0;
  // Take the value out, let ops that nobody wants any more fall out with it, then undo.
  Nanoseconds saving = 0;
  const auto unwant = [this](OpId op) {
    undo_wanted_.push_back(op);
    if (--wanted_outputs_[op] == 0) stack_.push_back(op);
  };
  unwant(graph_.values[value].producer);
  while (!stack_.empty()) {
    const OpId op = stack_.back();
    stack_.pop_back();
    saving += graph_.ops[op].duration_ns;
    for (ValueId input : graph_.ops[op].inputs) {
      undo_uses_.push_back(input);
      if (--uses_[input] == 0 && !kept_[input]) unwant(graph_.values[input].producer);
    }
  }
  for (ValueId input : undo_uses_) ++uses_[input];
  for (OpId op : undo_wanted_) ++wanted_outputs_[op];
  undo_uses_.clear();
  undo_wanted_.clear();
  return saving;
}

}  // namespace ebbtide::scheduler
