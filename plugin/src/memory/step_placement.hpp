// StepPlacement: addresses for the blocks of steps that follow a plan. Torch-free.
//
//   a step follows its plan ─► the next two are recorded ─► placed, on the planning thread
//     ─► further steps on that plan take the addresses ─► too many deviations: recorded again, and
//        until that is placed the old addresses are taken where they still fit
//
// A step that repeats is never given up: one that still deviates is recorded again after 4, 8, 16,
// ... of its steps. To place it takes up to two seconds of the planning thread, so it comes ever
// rarer.
//
// Steps without a plan are not placed: they fit, or are no two alike.
//
// A pass runs nothing backward (an evaluation with gradients on, say). It belongs to the step
// before it: its blocks are recorded and placed behind that step's own. As many passes are then
// expected after each step, and take their addresses in turn, until a step comes in place of a
// pass.
//
// Thread rule: any; of steps on several threads only the one that observes the allocator calls
// beginStep() and endStep(). place() by the planning thread.
#pragma once

#include <atomic>
#include <chrono>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <utility>

#include "base/guard.hpp"
#include "ebbtide/allocator/device_memory.hpp"
#include "ebbtide/allocator/step_lifetimes.hpp"
#include "memory/placed_step.hpp"
#include "plan/plan.hpp"

namespace ebbtide::plugin {

class StepPlacement {
 public:
  // The memory must outlive it. What the placer says is validated.
  explicit StepPlacement(allocator::DeviceMemory& memory,
                         StepPlacer placer = scheduler::placeInCycle,
                         std::chrono::nanoseconds placing_time = std::chrono::seconds{2})
      : memory_(memory), placer_(std::move(placer)), placing_time_(placing_time) {}

  // A step begins on this thread, and is to follow this plan (nullptr: none).
  void beginStep(const std::shared_ptr<const Plan>& plan);
  void changePlan(const std::shared_ptr<const Plan>& plan);  // at its first op
  void beginBackward();
  // The step is over. As planned: it followed the plan to its end, and compared nothing on the way.
  // A step without beginBackward() was a pass.
  void endStep(bool as_planned);

  // Is a recorded step waiting to be placed?
  bool hasWork() const;
  // Places it; what there is to say of it. `cancelled`: nobody waits for the addresses any more.
  // Throws what placeRecordedStep() does: then the step goes on without addresses.
  std::string place(const std::atomic<bool>* cancelled = nullptr);

 private:
  static constexpr int kMostDeviatingSteps = 5;  // in a row, then it is recorded again
  static constexpr int kLeastWaitSteps = 4;      // from one recording to the next
  static constexpr int kMostDoublings = 20;      // of those
  static constexpr std::size_t kPhases = 2;      // forward, backward

  using Held = Guard<StepPlacement>::Held;
  // Plans that do the same are placed alike.
  using Course = Plan::Course;

  struct Place {
    std::shared_ptr<const allocator::PlacedSequence> sequence;
    bool steady = false;    // a step followed the plan
    bool outdated = false;  // the sequence: steps deviate from it
    int recordings = 0;
    int wait_steps = 0;  // until it may be recorded again
    int deviating_steps = 0;
    int passes = 0;  // after each step, in the sequence too
  };
  using Places = std::map<std::weak_ptr<const Course>, Place, std::owner_less<>>;

  static std::shared_ptr<const Course> courseOf(const std::shared_ptr<const Plan>& plan) {
    return plan != nullptr ? plan->course : nullptr;
  }
  void follow(const std::shared_ptr<const Course>& course);
  void startRecording(const Held&, const std::shared_ptr<const Course>& course, Place& place);
  void goOnRecording(const Held&);
  void stopRecording(const Held&);
  void takeRecordingBack(const Held& held);
  void joinPass(const Held& held);

  allocator::DeviceMemory& memory_;
  const StepPlacer placer_;
  const std::chrono::nanoseconds placing_time_;
  mutable Guard<StepPlacement> guard_;  // guards all below
  Places places_;
  std::thread::id thread_;                                        // of the step that runs
  std::shared_ptr<const Course> course_;                          // that it follows
  allocator::Bytes requested_before_ = 0, misplaced_before_ = 0;  // it
  bool in_backward_ = false;
  std::shared_ptr<const Course> placed_;    // whose addresses are taken; nullptr: none
  int passes_to_come_ = 0;                  // after its step
  bool is_pass_ = false;                    // the step that runs counts as such a pass
  std::shared_ptr<const Course> recorded_;  // that the recording is for; nullptr: none
  int recorded_steps_ = 0;                  // that have begun
  int recorded_passes_ = 0;                 // after the first recorded step
  std::shared_ptr<const Course> work_course_;
  int work_passes_ = 0;
  allocator::StepLifetimes work_;
};

}  // namespace ebbtide::plugin
