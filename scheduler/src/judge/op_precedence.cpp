#include "judge/op_precedence.hpp"

#include <algorithm>
#include <numeric>

namespace ebbtide::scheduler {

OpPrecedence::OpPrecedence(const Graph& graph) : any_order_(graph.any_order) {
  const std::size_t ops = graph.ops.size();
  if (!any_order_) {
    chain_.resize(ops);
    std::iota(chain_.begin(), chain_.end(), 0);
    return;
  }
  needs_.assign(ops, std::vector<bool>(ops, false));
  std::vector<int> length(ops, 1);  // of the longest chain that ends here
  std::vector<OpId> previous(ops, kNone);
  for (std::size_t id = 0; id < ops; ++id) {
    for (ValueId input : graph.ops[id].inputs) {
      if (graph.values[input].producer == kNone) continue;
      const auto maker = static_cast<std::size_t>(graph.values[input].producer);
      needs_[id][maker] = true;
      for (std::size_t other = 0; other < maker; ++other) {
        if (needs_[maker][other]) needs_[id][other] = true;
      }
      if (length[maker] + 1 <= length[id]) continue;
      length[id] = length[maker] + 1;
      previous[id] = static_cast<OpId>(maker);
    }
  }
  if (ops == 0) return;
  const auto last = std::max_element(length.begin(), length.end()) - length.begin();
  for (OpId op = static_cast<OpId>(last); op != kNone; op = previous[op]) chain_.push_back(op);
  std::reverse(chain_.begin(), chain_.end());
}

}  // namespace ebbtide::scheduler
