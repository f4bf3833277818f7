#include "judge/schedule_reads.hpp"

namespace ebbtide::scheduler {

std::vector<OpId> lastScheduleReads(const Graph& graph) {
  std::vector<OpId> last(graph.values.size(), kNone);
  for (std::size_t id = 0; id < graph.ops.size(); ++id) {
    const OpId op = static_cast<OpId>(id);
    for (ValueId input : graph.ops[id].inputs) {
      if (!graph.programServes(op, input)) last[input] = op;
    }
  }
  return last;
}

}  // namespace ebbtide::scheduler
