#include "plan/kept_graphs.hpp"

namespace ebbtide::plugin {

void KeptGraphs::noteUnsaved(ValueId value) {
  if (held_.empty()) return;
  const auto held = held_.find(value);
  if (held == held_.end()) return;
  due_.insert(due_.end(), held->second.begin(), held->second.end());
  held_.erase(held);
}

std::vector<ValueId> KeptGraphs::takeDue(bool all) {
  std::vector<ValueId> due = std::exchange(due_, {});
  if (all) {
    for (const auto& [asker, values] : held_) due.insert(due.end(), values.begin(), values.end());
    held_.clear();
  }
  watches_any_ = !held_.empty();
  return due;
}

}  // namespace ebbtide::plugin
