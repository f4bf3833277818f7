#include "model/run_sequence.hpp"

#include <utility>

namespace ebbtide::scheduler {

Schedule scheduleOfRuns(const Graph& graph, const std::vector<OpId>& runs) {
  // Per value the run that last made or read its present copy; kNone: a graph input that none has
  // read.
  std::vector<std::int32_t> last(graph.values.size(), kNone);
  std::vector<std::vector<ValueId>> drops(runs.size() + 1);  // before the run of that index
  const auto drop = [&](ValueId value) {
    if (!graph.values[value].pinned) drops[last[value] + 1].push_back(value);
  };
  std::vector<bool> made(graph.values.size(), false);
  for (std::size_t i = 0; i < runs.size(); ++i) {
    const auto run = static_cast<std::int32_t>(i);
    for (const ValueId input : graph.ops[runs[i]].inputs) last[input] = run;
    for (const ValueId output : graph.ops[runs[i]].outputs) {
      if (made[output]) drop(output);
      made[output] = true;
      last[output] = run;
    }
  }
  for (std::size_t id = 0; id < graph.values.size(); ++id) drop(static_cast<ValueId>(id));
  Schedule schedule;
  for (std::size_t i = 0; i <= runs.size(); ++i) {
    for (const ValueId value : drops[i]) schedule.steps.push_back({Step::Kind::kDrop, value});
    if (i < runs.size()) schedule.steps.push_back({Step::Kind::kRun, runs[i]});
  }
  return schedule;
}

}  // namespace ebbtide::scheduler
