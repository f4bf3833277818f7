#include "planners/chain/chain_contraction.hpp"

#include <algorithm>

#include "model/forward_phase.hpp"
#include "planners/chain/stage_costs.hpp"
#include "search/retention.hpp"

namespace ebbtide::scheduler {
namespace {

// Cuts one pass into stages and gives each its events.
class PassCutter {
 public:
  PassCutter(const Graph& graph, const ForwardPhase& pass, std::vector<bool>& resident,
             std::size_t most_stages)
      : graph_(graph), pass_(pass), resident_(resident), most_stages_(most_stages) {}

  std::vector<ChainStage> cut() {
    findReaders();
    if (events_.empty()) return {};
    findCuts();
    thinCuts();
    makeStages();
    placeEvents();
    fillIdleStages();
    joinIdleStages();
    for (ChainStage& stage : stages_) describe(stage);
    return std::move(stages_);
  }

 private:
  struct Cut {
    std::size_t before = 0;  // op
    ValueId value = kNone;
  };

  bool mine(ValueId value) const {
    return pass_.holds(graph_.values[value].producer) && !resident_[value];
  }

  void findReaders() {
    last_reader_.assign(graph_.values.size(), kNone);
    wanted_.assign(graph_.values.size(), false);
    for (std::size_t id = pass_.begin; id < pass_.end; ++id) {
      for (ValueId input : graph_.ops[id].inputs) last_reader_[input] = static_cast<OpId>(id);
    }
    for (std::size_t id = pass_.end; id < graph_.ops.size(); ++id) {
      const auto& inputs = graph_.ops[id].inputs;
      const bool reads =
          std::any_of(inputs.begin(), inputs.end(), [this](ValueId input) { return mine(input); });
      if (reads) events_.push_back(static_cast<OpId>(id));
    }
  }

  // Before an op that only one value of the ops before it reaches, or none.
  void findCuts() {
    std::vector<ValueId> open;
    for (std::size_t id = pass_.begin; id < pass_.end; ++id) {
      std::erase_if(open,
                    [&](ValueId value) { return last_reader_[value] < static_cast<OpId>(id); });
      const bool crossed = open.empty() || (open.size() == 1 && keepable(open[0]));
      const ValueId value = open.empty() ? kNone : open[0];
      const bool same = !cuts_.empty() && value != kNone && cuts_.back().value == value;
      if (id > pass_.begin && crossed && !same) cuts_.push_back({id, value});
      for (ValueId output : graph_.ops[id].outputs) {
        if (mine(output) && last_reader_[output] > static_cast<OpId>(id)) open.push_back(output);
      }
    }
  }

  bool keepable(ValueId value) const { return graph_.values[value].overwritten_by == kNone; }

  Bytes cutBytes(const Cut& cut) const {
    return cut.value == kNone ? 0 : graph_.values[cut.value].bytes;
  }

  // Of each group of cuts that lie side by side the one that keeps least.
  void thinCuts() {
    if (cuts_.size() < most_stages_) return;
    const std::size_t groups = std::max<std::size_t>(most_stages_, 1) - 1;
    std::vector<Cut> kept;
    for (std::size_t group = 0; group < groups; ++group) {
      const auto from = cuts_.begin() + static_cast<std::ptrdiff_t>(cuts_.size() * group / groups);
      const auto to =
          cuts_.begin() + static_cast<std::ptrdiff_t>(cuts_.size() * (group + 1) / groups);
      kept.push_back(*std::min_element(
          from, to, [this](const Cut& a, const Cut& b) { return cutBytes(a) < cutBytes(b); }));
    }
    cuts_ = std::move(kept);
  }

  void makeStages() {
    stage_of_.assign(pass_.size(), 0);
    ChainStage stage;
    std::size_t next = 0;
    for (std::size_t id = pass_.begin; id < pass_.end; ++id) {
      if (next < cuts_.size() && cuts_[next].before == id) {
        stage.output = cuts_[next++].value;
        stages_.push_back(std::move(stage));
        stage = {};
        stage.input = stages_.back().output;
      }
      stage_of_[id - pass_.begin] = static_cast<std::int32_t>(stages_.size());
      stage.forward.push_back(static_cast<OpId>(id));
    }
    stages_.push_back(std::move(stage));
  }

  std::int32_t stageOf(ValueId value) const {
    return stage_of_[static_cast<std::size_t>(graph_.values[value].producer) - pass_.begin];
  }

  // An event belongs to the latest stage whose values it reads; one that reads a single output and
  // nothing else, to the stage after that. What it reads of stages further down is made resident.
  void placeEvents() {
    std::int32_t current = static_cast<std::int32_t>(stages_.size()) - 1;
    for (OpId event : events_) {
      std::int32_t wanted = 0;
      std::size_t read = 0;
      bool only_outputs = true;
      for (ValueId input : graph_.ops[event].inputs) {
        if (!mine(input)) continue;
        ++read;
        wanted = std::max(wanted, stageOf(input));
        only_outputs = only_outputs && stages_[stageOf(input)].output == input;
      }
      if (read == 1 && only_outputs) ++wanted;
      current = std::min(current, wanted);
      stages_[current].backward.push_back(event);
      for (ValueId input : graph_.ops[event].inputs) {
        if (!mine(input)) continue;
        const std::int32_t stage = stageOf(input);
        const bool handed_on = stages_[stage].output == input && stage + 1 == current;
        if (stage != current && !handed_on) resident_[input] = true;
      }
    }
  }

  // A stage with no event may get the one that reads its output alone.
  void fillIdleStages() {
    for (std::size_t stage = 0; stage + 1 < stages_.size(); ++stage) {
      auto& events = stages_[stage + 1].backward;
      if (!stages_[stage].backward.empty() || events.empty()) continue;
      std::size_t read = 0;
      for (ValueId input : graph_.ops[events.back()].inputs) read += mine(input) ? 1 : 0;
      const auto& inputs = graph_.ops[events.back()].inputs;
      const ValueId output = stages_[stage].output;
      if (read != 1 || std::find(inputs.begin(), inputs.end(), output) == inputs.end()) continue;
      stages_[stage].backward.push_back(events.back());
      events.pop_back();
    }
  }

  // A stage with nothing to do in backward belongs to the next one, the last to the one before.
  void joinIdleStages() {
    std::vector<ChainStage> joined;
    ChainStage open;
    bool begun = false;
    for (ChainStage& stage : stages_) {
      if (!begun) open.input = stage.input;
      begun = true;
      open.forward.insert(open.forward.end(), stage.forward.begin(), stage.forward.end());
      open.backward.insert(open.backward.begin(), stage.backward.begin(), stage.backward.end());
      open.output = stage.output;
      if (stage.backward.empty()) continue;
      joined.push_back(std::move(open));
      open = {};
      begun = false;
    }
    if (begun && !joined.empty()) {
      ChainStage& last = joined.back();
      last.forward.insert(last.forward.end(), open.forward.begin(), open.forward.end());
      last.output = kNone;
    }
    stages_ = std::move(joined);
  }

  void describe(ChainStage& stage) {
    if (stage.input != kNone && resident_[stage.input]) stage.input = kNone;
    if (stage.output != kNone && resident_[stage.output]) stage.output = kNone;
    std::vector<ValueId> read;
    for (OpId event : stage.backward) {
      for (ValueId input : graph_.ops[event].inputs) read.push_back(input);
    }
    std::sort(read.begin(), read.end());
    for (OpId op : stage.forward) {
      for (ValueId output : graph_.ops[op].outputs) {
        if (!mine(output)) continue;
        stage.made.push_back(output);
        if (output != stage.output && std::binary_search(read.begin(), read.end(), output)) {
          stage.saved.push_back(output);
        }
      }
    }
    std::sort(stage.saved.begin(), stage.saved.end());
    stage.run = producersOf(stage, {});
    stage.save = producersOf(stage, stage.saved);
  }

  // The stage's ops that its output and `also` are made by.
  std::vector<OpId> producersOf(const ChainStage& stage, const std::vector<ValueId>& also) {
    for (ValueId value : stage.made) wanted_[value] = false;
    for (ValueId value : also) wanted_[value] = true;
    if (stage.output != kNone) wanted_[stage.output] = true;
    std::vector<OpId> producers;
    for (std::size_t i = stage.forward.size(); i-- > 0;) {
      const Op& op = graph_.ops[stage.forward[i]];
      const bool needed = std::any_of(op.outputs.begin(), op.outputs.end(), [this](ValueId output) {
        return mine(output) && wanted_[output];
      });
      if (!needed) continue;
      producers.push_back(stage.forward[i]);
      for (ValueId input : op.inputs) wanted_[input] = true;
    }
    std::reverse(producers.begin(), producers.end());
    return producers;
  }

  const Graph& graph_;
  const ForwardPhase pass_;
  std::vector<bool>& resident_;
  const std::size_t most_stages_;
  std::vector<OpId> last_reader_, events_;
  std::vector<bool> wanted_;
  std::vector<Cut> cuts_;
  std::vector<std::int32_t> stage_of_;
  std::vector<ChainStage> stages_;
};

}  // namespace

std::vector<bool> residentValues(const Graph& graph) {
  const ScheduleBuilder builder(graph);
  std::vector<bool> resident(graph.values.size());
  for (std::size_t id = 0; id < graph.values.size(); ++id) {
    const Value& value = graph.values[id];
    const ValueId v = static_cast<ValueId>(id);
    const bool held = value.last_reference != kNone && value.last_reference >= builder.lastNeed(v);
    resident[id] =
        value.producer == kNone || !builder.droppable(v) || (held && builder.readByEvents(v));
  }
  for (const ForwardPhase& pass : forwardPhases(graph)) {
    for (std::size_t id = pass.begin; id < pass.end; ++id) {
      for (ValueId input : graph.ops[id].inputs) {
        if (!pass.holds(graph.values[input].producer)) resident[input] = true;
      }
    }
  }
  return resident;
}

std::vector<ChainContraction> contractToChains(const Graph& graph, std::size_t most_stages) {
  std::vector<bool> resident = residentValues(graph);
  std::vector<ChainContraction> chains;
  for (const ForwardPhase& pass : forwardPhases(graph)) {
    std::vector<ChainStage> stages = PassCutter(graph, pass, resident, most_stages).cut();
    if (!stages.empty()) chains.push_back({std::move(stages), {}});
  }
  for (ChainContraction& chain : chains) {
    chain.costs = stageCosts(graph, chain.stages, resident);
  }
  return chains;
}

}  // namespace ebbtide::scheduler
