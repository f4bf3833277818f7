#include "model/saved_bytes.hpp"

#include <algorithm>
#include <utility>
#include <vector>

namespace ebbtide::scheduler {

Graph withSavedFixed(Graph graph, const Schedule& schedule) {
  std::vector<bool> ran(graph.ops.size(), false), again(graph.ops.size(), false);
  for (const Step& step : schedule.steps) {
    if (step.kind != Step::Kind::kRun) continue;
    again[step.id] = ran[step.id];
    ran[step.id] = true;
  }
  std::vector<OpId> last(graph.values.size(), kNone);  // read, or held by the program
  for (std::size_t v = 0; v < last.size(); ++v)
    last[v] = std::max(graph.values[v].producer, graph.values[v].last_reference);
  for (std::size_t op = 0; op < graph.ops.size(); ++op) {
    for (const ValueId v : graph.ops[op].inputs) last[v] = std::max(last[v], static_cast<OpId>(op));
  }
  std::vector<Bytes> change(graph.ops.size() + 1, 0);
  for (std::size_t v = 0; v < graph.values.size(); ++v) {
    Value& value = graph.values[v];
    const OpId saved_last = std::exchange(value.saved_last, kNone);
    const bool made_again = value.producer != kNone && again[value.producer];
    if (value.pinned || made_again || saved_last <= last[v]) continue;
    change[last[v] + 1] += value.bytes;
    change[saved_last + 1] -= value.bytes;
  }
  Bytes saved = 0;
  for (std::size_t op = 0; op < graph.ops.size(); ++op) {
    saved += change[op];
    graph.ops[op].fixed_at_start = graph.ops[op].fixedAtStart() + saved;
    graph.ops[op].fixed_bytes += saved;
  }
  return graph;
}

}  // namespace ebbtide::scheduler
