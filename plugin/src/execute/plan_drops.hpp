// PlanDrops: what the plan drops: a copy is made of what comes back from one, then the value goes,
// unless something that the plan does not know still reads it. Includes torch.
//
//   value ─► as bits ──┐
//         ─► on the host ─► dropped ─► fetched at an event (Restorer)
//         ─► (by its op) ┘
#pragma once

#include "execute/kept_values.hpp"
#include "execute/step_parts.hpp"

namespace ebbtide::plugin {

class PlanDrops {
 public:
  PlanDrops(StepParts& step, KeptValues& kept_values) : step_(step), kept_values_(kept_values) {}

  // `drops`: the plan's numbers. Without the step's lock: copies take memory.
  void applyDrops(c10::ArrayRef<ValueId> drops);

 private:
  void makeCopy(ValueId value);
  void encode(RunValue& value, ValueId planned, const c10::Storage& present);
  void offload(RunValue& value, const c10::Storage& present);
  void drop(const StepLock::Freeing&, ValueId value);
  bool looksWritten(const StepLock::Freeing&, const RunValue& value) const;
  bool staysWritten(const StepLock::Freeing&, RunValue& value);
  bool losesItsOp(const StepLock::Held&, ValueId id, const RunValue& value) const;
  bool isStillOnHost(const StepLock::Held&, const RunValue& value) const;

  StepParts& step_;
  KeptValues& kept_values_;
  OutageCourse& outage_ = step_.run.outage;
  ReplayTrust& trust_ = step_.run.trust;
  SpillTarget& spills_ = step_.run.spills;
  ExecutorCounters& counters_ = step_.run.counters;
  RunTrace& trace_ = step_.run.trace;
  const TrainingDevice& device_ = step_.device;
  PlanFollower& follower_ = step_.follower;
  StepLock& lock_ = step_.lock;
  Verifier& verifier_ = step_.verifier;
  OpLog& ops_ = step_.ops;
  KeptGraphs& graphs_ = step_.graphs;
  ValueTable& values_ = step_.values;
};

}  // namespace ebbtide::plugin
