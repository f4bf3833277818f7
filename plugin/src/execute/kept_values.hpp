// KeptValues: which values stay, and why: the plan holds them, a tensor that is saved, a replay
// that is to come, or the graph that the program keeps reads them. And what goes when the last
// reason does. Includes torch.
//
//   saved use ─┐
//   plan ──────┼─► held ─► no reason is left: given up, with what it alone would be computed from
//   reader ────┘
//
// Thread rule: the step's lock, which a token shows.
#pragma once

#include <string>

#include "execute/step_parts.hpp"

namespace ebbtide::plugin {

class KeptValues {
 public:
  using Held = StepLock::Held;
  using Freeing = StepLock::Freeing;

  explicit KeptValues(StepParts& step) : step_(step) {}

  // From now on nothing has a place in the plan: all stays.
  void leavePlan(const Held&, const std::string& why);
  void keepEverything(const std::string& why);  // in any step; without the lock
  // Is something dropped, or to be dropped? Yes while uses live, or the plan expects more uses.
  bool mayDrop() const noexcept { return saved_.live() > 0 || follower_.expectsUses(); }

  // --- why a value stays
  void holdIfKept(const Freeing&, ValueId value, const c10::Storage& storage);
  bool readByPlan(const Held&, ValueId value) const;
  bool fetchedLater(const Held&, ValueId id, const RunValue& value) const;
  bool onlyCopy(const Held&, ValueId id, const RunValue& value);
  bool staysOnHost(const Held&, ValueId id, const RunValue& value) const;
  bool isAskedFor(const Held&, ValueId id);

  // --- what goes
  void endUse(const Freeing&, UseId use);  // it was released
  void letGo(const Freeing&, ValueId value);
  void giveUpUnasked(const Freeing&);
  void giveUpAll();  // without the lock

 private:
  bool copiedByPlan(const Held&, ValueId id, const RunValue& value) const;
  bool mayRunBeyondPlan(const Held&) const;
  KeptGraphs::Asker savedReader(const Held&, ValueId id);
  void endLastUse(const Freeing&, ValueId id, bool released, bool asked_for);

  StepParts& step_;
  DropsAllowed& allowed_ = step_.run.drops;
  const RunLines& lines_ = step_.run.lines;
  const TrainingDevice& device_ = step_.device;
  PlanFollower& follower_ = step_.follower;
  StepLock& lock_ = step_.lock;
  OpLog& ops_ = step_.ops;
  SavedTensors<TensorView>& saved_ = step_.saved;
  KeptGraphs& graphs_ = step_.graphs;
  ValueTable& values_ = step_.values;
};

}  // namespace ebbtide::plugin
