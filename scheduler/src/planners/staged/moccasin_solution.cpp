// MoccasinModel: schedules as values of its variables, and back.
#include <algorithm>
#include <utility>

#include "model/run_sequence.hpp"
#include "planners/staged/moccasin_model.hpp"

namespace ebbtide::scheduler {

// One more run of the op. False where the model has no such run.
bool MoccasinModel::addTimes(OpId op, std::int64_t event, Times& times) const {
  const std::size_t run = times.starts[op].size();
  if (run >= runs_[op].size()) return false;
  times.starts[op].push_back(event);
  for (const ValueId input : graph_.ops[op].inputs) {
    if (!needsCopy(op, run, input)) continue;
    const std::size_t copies = times.ends[input].size();
    if (copies == 0) return false;
    times.ends[input].back() = event;
    times.serves.emplace(input, copies - 1, op, run);
  }
  for (const ValueId output : graph_.ops[op].outputs) {
    if (managed(output)) times.ends[output].push_back(event);
  }
  return true;
}

std::optional<MoccasinModel::Times> MoccasinModel::timesOf(const Schedule& schedule) const {
  Times times;
  times.starts.resize(graph_.ops.size());
  times.ends.resize(graph_.values.size());
  for (std::size_t id = 0; id < graph_.values.size(); ++id) {
    if (graph_.values[id].producer == kNone) times.ends[id].push_back(0);
  }
  OpId stage = 0;
  std::int64_t position = 0, last = 0;
  for (const Step& step : schedule.steps) {
    if (step.kind != Step::Kind::kRun) continue;
    const bool first = times.starts[step.id].empty();
    if (!settings_.free_order && !first && !limits_.allowed(RunKey(stage, step.id))) {
      return std::nullopt;
    }
    const std::int64_t event = settings_.free_order ? ++position : eventOf(stage, step.id);
    if (event <= last || !addTimes(step.id, event, times)) return std::nullopt;
    last = event;
    stage += first;
  }
  return times;
}

bool MoccasinModel::hint(const Schedule& schedule) {
  const std::optional<Times> times = timesOf(schedule);
  if (!times) return false;
  std::vector<std::pair<CpVariable, std::int64_t>> hints;
  for (std::size_t op = 0; op < runs_.size(); ++op) {
    for (std::size_t i = 0; i < runs_[op].size(); ++i) {
      const bool active = i < times->starts[op].size();
      if (i > 0) hints.emplace_back(runs_[op][i].active, active);
      if (active && !runs_[op][i].start.terms.empty()) {
        const auto& [variable, factor] = runs_[op][i].start.terms[0];
        hints.emplace_back(variable, (times->starts[op][i] - runs_[op][i].start.offset) / factor);
      }
    }
  }
  for (std::size_t value = 0; value < copies_.size(); ++value) {
    for (std::size_t i = 0; i < std::min(copies_[value].size(), times->ends[value].size()); ++i) {
      const Value& v = graph_.values[value];
      std::int64_t end = times->ends[value][i];
      if (i == 0 && v.last_reference != kNone) {
        OpId until = v.last_reference;
        if (v.overwritten_by != kNone) until = std::min(until, v.overwritten_by);
        end = std::max(end, eventOf(until, until));
      }
      const Copy& copy = copies_[value][i];
      hints.emplace_back(copy.end, end);
      if (copy.size) hints.emplace_back(*copy.size, end + 1 - times->starts[v.producer][i]);
    }
  }
  for (const Serve& one : serves_) {
    const auto key = std::tuple(one.value, one.copy, one.op, one.run);
    hints.emplace_back(one.literal, times->serves.count(key) > 0);
  }
  model_.hint(hints);
  return true;
}

Schedule MoccasinModel::schedule(const std::vector<std::int64_t>& solution) const {
  const auto valueOf = [&](const CpExpression& expression) {
    std::int64_t value = expression.offset;
    for (const auto& [variable, factor] : expression.terms) {
      value += factor * solution[static_cast<std::size_t>(variable)];
    }
    return value;
  };
  std::vector<std::pair<std::int64_t, OpId>> order;
  for (std::size_t op = 0; op < runs_.size(); ++op) {
    for (const Run& run : runs_[op]) {
      if (solution[static_cast<std::size_t>(run.active)] == 0) continue;
      order.emplace_back(valueOf(run.start), static_cast<OpId>(op));
    }
  }
  std::sort(order.begin(), order.end());
  if (settings_.free_order) {
    std::vector<OpId> runs;
    runs.reserve(order.size());
    for (const auto& [event, op] : order) runs.push_back(op);
    return scheduleOfRuns(graph_, runs);
  }
  ReplayTimeline timeline(graph_);
  OpId stage = 0;
  for (const auto& [event, op] : order) {
    if (event == eventOf(stage, stage)) {
      ++stage;
    } else {
      timeline.insert(RunKey(stage, op));  // refused where it would not be legal
    }
  }
  return timeline.schedule();
}

}  // namespace ebbtide::scheduler
