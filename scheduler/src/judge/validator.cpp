// What a run may read.
//   A first run of an op that is not backward is the program's own: it finds an input that the
//   program still holds (its first copy, last_reference not yet past), whatever the schedule
//   dropped. Every other read (a backward event, a replay) goes through the schedule's copy of the
//   value. It begins with a run of the producer, or with the step for a graph input, and ends with
//   a drop, an offload or the program's overwriting of that copy.
// Where an output of a replayed op has a copy already, that copy stays in place.
// In a recorded step the first run after a replay is that of a backward event that reads something
// or of an op that waits.
#include "ebbtide/scheduler/validator.hpp"

#include <algorithm>
#include <string>
#include <vector>

namespace ebbtide::scheduler {
namespace {

enum class Copy : std::uint8_t { kGone, kFirst, kReplayed, kHost };

class Checker {
 public:
  explicit Checker(const Graph& graph)
      : graph_(graph),
        recorded_step_(graph.isRecordedStep()),
        ran_(graph.ops.size(), false),
        copies_(graph.values.size(), Copy::kGone) {
    overwritten_at_.resize(graph.ops.size());
    for (std::size_t id = 0; id < graph.values.size(); ++id) {
      const Value& value = graph.values[id];
      if (value.producer == kNone) copies_[id] = Copy::kFirst;
      if (value.overwritten_by != kNone) {
        overwritten_at_[value.overwritten_by].push_back(static_cast<ValueId>(id));
      }
    }
  }

  std::optional<std::string> check(const Schedule& schedule) {
    for (std::size_t i = 0; i < schedule.steps.size(); ++i) {
      const Step& step = schedule.steps[i];
      const std::string fault = step.kind == Step::Kind::kRun ? run(step.id) : move(step);
      if (!fault.empty()) return "step " + std::to_string(i) + ": " + fault;
    }
    const auto missing = std::find(ran_.begin(), ran_.end(), false);
    if (missing == ran_.end()) return unserved();
    return "op " + std::to_string(missing - ran_.begin()) + " is never run";
  }

 private:
  bool overwritten(const Value& value) const {
    return value.overwritten_by != kNone && value.overwritten_by < next_;
  }

  // Does the program hold the first copy while op `next_` runs or is about to?
  bool programHolds(const Value& value) const {
    return value.producer < next_ && value.last_reference >= next_ && !overwritten(value);
  }

  bool readable(ValueId id, bool program_reads) const {
    const Value& value = graph_.values[id];
    if (value.pinned)
      return (value.producer == kNone || ran_[value.producer]) && !overwritten(value);
    if (copies_[id] == Copy::kFirst || copies_[id] == Copy::kReplayed) return true;
    return program_reads && programHolds(value);
  }

  std::string run(OpId id) {
    const std::string name = "op " + std::to_string(id);
    if (id < 0 || static_cast<std::size_t>(id) >= graph_.ops.size())
      return name + " does not exist";
    if (id > next_ && !graph_.any_order) return name + " runs before op " + std::to_string(next_);
    const Op& op = graph_.ops[id];
    const bool first = !ran_[id];
    if (!first && !op.rerunnable) return name + " is replayed but is not rerunnable";
    if (first && waiting_ != kNone && !op.waits && (!op.backward || op.inputs.empty())) {
      return name + " comes after a replay of op " + std::to_string(waiting_) +
             " but is no backward event that reads something, nor does it wait";
    }
    for (ValueId input : op.inputs) {
      if (readable(input, first && !op.backward)) continue;
      return name + " reads value " + std::to_string(input) +
             (overwritten(graph_.values[input]) ? ", which the program overwrote"
                                                : ", which is not live");
    }
    if (first) overwrite(id);
    for (ValueId output : op.outputs) {
      Copy& copy = copies_[output];
      if (first || copy == Copy::kGone) copy = first ? Copy::kFirst : Copy::kReplayed;
    }
    if (first) ++next_;
    ran_[id] = true;
    waiting_ = recorded_step_ && !first ? id : kNone;
    return {};
  }

  std::optional<std::string> unserved() const {
    if (waiting_ == kNone) return std::nullopt;
    return "op " + std::to_string(waiting_) + " is replayed after the last backward event or wait";
  }

  // The program's write ends its own copy; a copy that a replay made apart from it survives.
  void overwrite(OpId id) {
    for (ValueId value : overwritten_at_[id]) {
      Copy& copy = copies_[value];
      const bool apart = copy == Copy::kReplayed && programHolds(graph_.values[value]);
      if (copy != Copy::kHost && !apart) copy = Copy::kGone;
    }
  }

  std::string move(const Step& step) {
    const std::string name = "value " + std::to_string(step.id);
    if (step.id < 0 || static_cast<std::size_t>(step.id) >= graph_.values.size()) {
      return name + " does not exist";
    }
    if (graph_.values[step.id].pinned) return name + " is pinned and cannot be moved or dropped";
    Copy& copy = copies_[step.id];
    if (step.kind == Step::Kind::kFetch) {
      if (copy != Copy::kHost) return name + " is fetched but is not on the host";
      copy = Copy::kReplayed;
      return {};
    }
    const bool drop = step.kind == Step::Kind::kDrop;
    if (copy == Copy::kGone || copy == Copy::kHost) {
      return name + (drop ? " is dropped" : " is offloaded") + " but is not live";
    }
    copy = drop ? Copy::kGone : Copy::kHost;
    return {};
  }

  const Graph& graph_;
  const bool recorded_step_;
  OpId next_ = 0;         // first runs so far; in program order: the next one
  OpId waiting_ = kNone;  // recorded step: the last run, if that was a replay
  std::vector<bool> ran_;
  std::vector<Copy> copies_;
  std::vector<std::vector<ValueId>> overwritten_at_;
};

}  // namespace

std::optional<std::string> validate(const Graph& graph, const Schedule& schedule) {
  return Checker(graph).check(schedule);
}

}  // namespace ebbtide::scheduler
