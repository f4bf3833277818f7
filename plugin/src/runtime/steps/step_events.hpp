// StepEvents: what a step that runs asks of its run, and tells it: all that the executor knows of
// how steps begin and end. StepCourse answers. Torch-free.
//
//   first op: planFor() ─► noteStepPlan() ─► first unpack: noteBackwardBegins() ─► it is over
//                                                          later unpacks: noteLateBackward()
//
// Thread rule: any thread, which may hold the step's lock (the order of locks: replay_trust.hpp).
#pragma once

#include <cstdint>
#include <memory>

#include "plan/plan.hpp"
#include "record/log/event_log.hpp"

namespace ebbtide::plugin {

class StepEvents {
 public:
  virtual ~StepEvents() = default;

  // The plan of the program that begins with this op, or nullptr. Of several programs, the one that
  // was expected here is taken, else the one that most steps ran. `trains` false: the thread's
  // steps have run nothing backward so far.
  virtual std::shared_ptr<const Plan> planFor(std::uint64_t first_op_signature, bool trains) = 0;
  // The step that observes the allocator follows another plan than it began with.
  virtual void noteStepPlan(const std::shared_ptr<const Plan>& plan) = 0;
  virtual void noteBackwardBegins() noexcept = 0;  // at the step's first unpack
  // A saved tensor is unpacked though the step has been ended: by a hint of the program, or not.
  virtual void noteLateBackward(bool ended_by_hint) noexcept = 0;
  // Is this the log of the step that observes the allocator? Also false where the answer would need
  // waiting.
  virtual bool observesBy(const EventLog* log) const = 0;
};

}  // namespace ebbtide::plugin
