#include "planners/lower_sets/canonical_schedule.hpp"

#include <algorithm>

namespace ebbtide::scheduler {
namespace {

struct Runs {
  std::vector<OpId> ops;
  std::vector<std::size_t> part_end;  // per run: one past the last run of its part of the strategy
};

Runs canonicalRuns(const LowerSetPlan& plan) {
  std::vector<std::vector<std::int32_t>> segments(static_cast<std::size_t>(plan.segments));
  for (std::size_t v = 0; v < plan.segment.size(); ++v) {
    segments[static_cast<std::size_t>(plan.segment[v])].push_back(static_cast<std::int32_t>(v));
  }
  const OpId last = static_cast<OpId>(2 * plan.segment.size()) - 1;
  Runs runs;
  const auto endPart = [&runs] { runs.part_end.resize(runs.ops.size(), runs.ops.size()); };
  for (const auto& segment : segments) {
    runs.ops.insert(runs.ops.end(), segment.begin(), segment.end());
    endPart();
  }
  for (std::size_t i = segments.size(); i-- > 0;) {
    for (std::int32_t v : segments[i]) {
      if (i + 1 < segments.size() && !plan.cached[v]) runs.ops.push_back(v);
    }
    for (auto v = segments[i].rbegin(); v != segments[i].rend(); ++v) runs.ops.push_back(last - *v);
    endPart();
  }
  return runs;
}

}  // namespace

Schedule canonicalSchedule(const Graph& graph, const LowerSetPlan& plan, DropTime drops) {
  const Runs runs = canonicalRuns(plan);
  std::vector<std::vector<ValueId>> drops_before(runs.ops.size() + 1);
  std::vector<std::int64_t> last_read(graph.values.size(), -1);  // of the present copy: the run
  const auto end = [&](ValueId value) {
    const auto run = static_cast<std::size_t>(last_read[value]);
    const bool late = drops == DropTime::kSegmentEnd;
    drops_before[late ? runs.part_end[run] : run + 1].push_back(value);
  };
  for (std::size_t run = 0; run < runs.ops.size(); ++run) {
    const Op& op = graph.ops[runs.ops[run]];
    for (ValueId input : op.inputs) last_read[input] = static_cast<std::int64_t>(run);
    for (ValueId output : op.outputs) {
      if (last_read[output] >= 0) end(output);  // made again: the copy before ended
      last_read[output] = static_cast<std::int64_t>(run);
    }
  }
  for (std::size_t id = 0; id < graph.values.size(); ++id) end(static_cast<ValueId>(id));
  Schedule schedule;
  for (std::size_t run = 0; run <= runs.ops.size(); ++run) {
    for (ValueId value : drops_before[run]) schedule.steps.push_back({Step::Kind::kDrop, value});
    if (run < runs.ops.size()) schedule.steps.push_back({Step::Kind::kRun, runs.ops[run]});
  }
  return schedule;
}

}  // namespace ebbtide::scheduler
