// BackwardRunner: a step's backward passes, as they unpack what was saved. Before each event of the
// plan it runs the event's replays and fetches, after the event its drops. While the program would
// wait for messages it runs replays ahead. Includes torch.
//
// Thread rule: any thread unpacks, one at a time (StepLock::Restoring), and notes what runs
// backward; messages are noted by the thread that trains.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "execute/kept_values.hpp"
#include "execute/plan_drops.hpp"
#include "execute/restorer.hpp"
#include "execute/step_parts.hpp"

namespace ebbtide::plugin {

class BackwardRunner {
 public:
  BackwardRunner(StepParts& step, KeptValues& kept_values, PlanDrops& drops, Restorer& restorer)
      : step_(step), kept_values_(kept_values), drops_(drops), restorer_(restorer) {}

  c10::Storage restore(UseId use);  // for one unpack
  // No saved tensor is left: the last event's values need not wait for another one.
  void finishLast() noexcept;
  // Something runs backward.
  void noteBackward() noexcept;
  // Of that name, on any thread that runs one.
  void noteBackwardNode(const char* name);

  // --- messages of other ranks
  bool notesReceives() const noexcept;
  void noteMessage(bool receive) noexcept;  // the program asks for one,
  void runAhead();                          // has asked, and has not begun to wait

 private:
  c10::Storage unpack(UseId use);
  c10::Storage unpackCaptured(UseId use);
  // Logs it. Returns the event that the use begins or belongs to; kNone: no event comes. nullopt:
  // the plan lacks the use.
  std::optional<std::int32_t> noteUnpack(UseId use);
  void beginEvent(std::int32_t event);
  bool canRun(const std::vector<scheduler::Step>& prelude) const;
  ValueId stepsValue(ValueId planned) const;
  void noteLeftOver(const StepLock::Held&, UseId use);
  void runPrelude(std::int32_t event);
  bool runSteps(const std::vector<scheduler::Step>& steps);
  bool runDueWaits(std::int32_t event);
  void leavePlan(const std::string& why);
  void finishEvent();
  void finishLastEvent() noexcept;

  StepParts& step_;
  KeptValues& kept_values_;
  PlanDrops& drops_;
  Restorer& restorer_;
  StepEvents& events_ = step_.run.events;
  Verifications& verifications_ = step_.run.verifications;
  ExecutorCounters& counters_ = step_.run.counters;
  RunTrace& trace_ = step_.run.trace;
  const RunLines& lines_ = step_.run.lines;
  const TrainingDevice& device_ = step_.device;
  const DeviceLanes::Lane lane_ = step_.lane;
  const std::shared_ptr<EventLog>& log_ = step_.log;
  StepPhases& phases_ = step_.phases;
  PlanFollower& follower_ = step_.follower;
  StepLock& lock_ = step_.lock;
  SavedTensors<TensorView>& saved_ = step_.saved;
  KeptGraphs& graphs_ = step_.graphs;
  ValueTable& values_ = step_.values;
};

}  // namespace ebbtide::plugin
