#include "planners/chain/stage_costs.hpp"

#include <algorithm>
#include <limits>
#include <numeric>

#include "search/retention.hpp"

namespace ebbtide::scheduler {
namespace {

// Per op: fixed bytes and residents while it runs, and when it begins.
struct Residents {
  std::vector<Bytes> during, at_start;
};

Residents residentBytes(const Graph& graph, const std::vector<bool>& resident) {
  const std::size_t ops = graph.ops.size();
  const ScheduleBuilder builder(graph);
  std::vector<Bytes> during(ops + 1, 0), at_start(ops + 1, 0);  // as changes
  for (std::size_t id = 0; id < graph.values.size(); ++id) {
    const Value& value = graph.values[id];
    if (!resident[id] || value.pinned) continue;
    const OpId begin = std::max(value.producer, 0);
    OpId end = std::max({value.last_reference, builder.lastNeed(static_cast<ValueId>(id)), begin});
    // The next epoch takes the bytes over.
    if (value.overwritten_by != kNone) end = std::min(end, value.overwritten_by - 1);
    if (end < begin) continue;
    during[begin] += value.bytes;
    during[end + 1] -= value.bytes;
    const OpId held = value.producer == kNone ? 0 : value.producer + 1;
    if (held > end) continue;
    at_start[held] += value.bytes;
    at_start[end + 1] -= value.bytes;
  }
  std::partial_sum(during.begin(), during.end(), during.begin());
  std::partial_sum(at_start.begin(), at_start.end(), at_start.begin());
  for (std::size_t id = 0; id < ops; ++id) {
    const Op& op = graph.ops[id];
    during[id] += op.fixed_bytes;
    at_start[id] += op.fixedAtStart();
  }
  return {std::move(during), std::move(at_start)};
}

class StageRunner {
 public:
  StageRunner(const Graph& graph, const std::vector<bool>& resident)
      : graph_(graph),
        resident_(resident),
        residents_(residentBytes(graph, resident)),
        last_reader_(graph.values.size(), kNone),
        live_(graph.values.size(), false) {}

  ChainCosts costs(const std::vector<ChainStage>& stages) {
    ChainCosts costs;
    for (const ChainStage& stage : stages) {
      const Bytes output = bytes(stage.output);
      costs.input.push_back(bytes(stage.input));
      costs.saved.push_back(output + sum(stage.saved));
      costs.first_run.push_back(forwardPeak(stage, stage.forward, true, false));
      costs.first_save.push_back(forwardPeak(stage, stage.forward, true, true));
      costs.again_run.push_back(forwardPeak(stage, stage.run, false, false));
      costs.again_save.push_back(forwardPeak(stage, stage.save, false, true));
      costs.held.push_back(residents_.at_start[stage.backward.front()]);
      costs.backward.push_back(backwardPeak(stage));
      costs.run_ns.push_back(duration(stage.run));
      costs.save_ns.push_back(duration(stage.save));
    }
    return costs;
  }

 private:
  Bytes bytes(ValueId value) const { return value == kNone ? 0 : graph_.values[value].bytes; }
  Bytes sum(const std::vector<ValueId>& values) const {
    Bytes total = 0;
    for (ValueId value : values) total += bytes(value);
    return total;
  }
  Nanoseconds duration(const std::vector<OpId>& ops) const {
    Nanoseconds total = 0;
    for (OpId op : ops) total += graph_.ops[op].duration_ns;
    return total;
  }

  // Beyond the stage's input. Of a replay beyond the residents too.
  Bytes forwardPeak(const ChainStage& stage, const std::vector<OpId>& ops, bool first, bool save) {
    for (ValueId value : stage.made) last_reader_[value] = kNone;
    for (OpId id : ops) {
      for (ValueId input : graph_.ops[id].inputs) last_reader_[input] = id;
    }
    if (stage.output != kNone) last_reader_[stage.output] = ops.empty() ? kNone : kAlways;
    if (save) {
      for (ValueId value : stage.saved) last_reader_[value] = kAlways;
    }
    Bytes live = 0, peak = 0;
    for (OpId id : ops) {
      const Op& op = graph_.ops[id];
      Bytes gone = 0;  // with the op's end
      for (ValueId output : op.outputs) {
        if (resident_[output] || graph_.values[output].pinned) continue;
        const bool dies = last_reader_[output] == kNone;
        if (dies && graph_.lazy_outputs) continue;
        live += bytes(output);
        if (dies) gone += bytes(output);
        live_[output] = !dies;
        const ValueId previous = graph_.values[output].previous_epoch;
        if (previous != kNone) live -= end(previous);
      }
      peak = std::max(peak, live + (first ? residents_.during[id] : op.workspace_bytes));
      live -= gone;
      for (ValueId input : op.inputs) {
        if (last_reader_[input] == id) live -= end(input);
      }
    }
    for (ValueId value : stage.made) live_[value] = false;
    return peak;
  }

  // Bytes that end with a value if it is a live one of the stage.
  Bytes end(ValueId value) {
    if (!live_[value]) return 0;
    live_[value] = false;
    return bytes(value);
  }

  // Beyond the stage's input, which stays.
  Bytes backwardPeak(const ChainStage& stage) {
    for (ValueId value : stage.made) last_reader_[value] = kNone;
    for (OpId id : stage.backward) {
      for (ValueId input : graph_.ops[id].inputs) last_reader_[input] = id;
    }
    Bytes live = sum(stage.saved), peak = 0;
    for (ValueId value : stage.saved) live_[value] = true;
    if (stage.output != kNone && last_reader_[stage.output] != kNone) {
      live += bytes(stage.output);
      live_[stage.output] = true;
    }
    for (OpId id : stage.backward) {
      peak = std::max(peak, live + residents_.during[id]);
      for (ValueId input : graph_.ops[id].inputs) {
        if (last_reader_[input] == id) live -= end(input);
      }
    }
    for (ValueId value : stage.made) live_[value] = false;
    return peak;
  }

  static constexpr OpId kAlways = std::numeric_limits<OpId>::max();

  const Graph& graph_;
  const std::vector<bool>& resident_;
  const Residents residents_;
  std::vector<OpId> last_reader_;  // in the run at hand; kAlways: it stays
  std::vector<bool> live_;
};

}  // namespace

ChainCosts stageCosts(const Graph& graph, const std::vector<ChainStage>& stages,
                      const std::vector<bool>& resident) {
  return StageRunner(graph, resident).costs(stages);
}

}  // namespace ebbtide::scheduler
