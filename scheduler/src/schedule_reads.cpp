#include "schedule_reads.hpp"

namespace ebbtide::scheduler {

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

}  // namespace ebbtide::scheduler
