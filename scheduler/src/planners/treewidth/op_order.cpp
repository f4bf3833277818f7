#include "planners/treewidth/op_order.hpp"

#include <algorithm>

namespace ebbtide::scheduler {

OpOrder::OpOrder(const Graph& graph) : before(graph.ops.size()) {
  OpId event = kNone;
  for (std::size_t id = 0; id < graph.ops.size(); ++id) {
    const Op& op = graph.ops[id];
    std::vector<OpId>& list = before[id];
    for (ValueId input : op.inputs) {
      const Value& value = graph.values[input];
      // A pinned value's first copy is there in program order.
      const bool orders = !value.pinned || graph.any_order;
      if (orders && value.producer != kNone) list.push_back(value.producer);
    }
    std::sort(list.begin(), list.end());
    list.erase(std::unique(list.begin(), list.end()), list.end());
    const bool since = !list.empty() && list.back() >= event;
    if (event != kNone && (!since || (op.backward && list.back() != event))) {
      list.insert(std::upper_bound(list.begin(), list.end(), event), event);
    }
    if (op.backward) event = static_cast<OpId>(id);
  }
  std::vector<bool> followed(size(), false);
  for (const auto& list : before) {
    for (OpId op : list) followed[op] = true;
  }
  for (std::size_t id = 0; id < size(); ++id) {
    // Forward ops that serve no event run once, in their turn.
    const bool wanted = graph.any_order || event == kNone || graph.ops[id].backward;
    if (!followed[id] && wanted) targets.push_back(static_cast<OpId>(id));
  }
}

std::vector<std::vector<OpId>> OpOrder::neighbours() const {
  std::vector<std::vector<OpId>> all = before;
  for (std::size_t id = 0; id < size(); ++id) {
    for (OpId op : before[id]) all[op].push_back(static_cast<OpId>(id));
  }
  return all;  // increasing: what comes before, then what follows in order
}

}  // namespace ebbtide::scheduler
