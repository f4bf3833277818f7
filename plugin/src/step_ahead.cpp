// Replays ahead of a receive: the program has asked for a message and would wait for it.
//
//   program:   recv ──► wait ........ ──► backward, whose gradient came
//   here:           replays of that      its prelude: nothing is left to do
//
// On the thread that trains, below autograd, as all replays. What does not come where it is planned
// runs at the event before which it has to: there the schedule had it first.
#include <torch/csrc/autograd/graph_task.h>

#include "elapsed.hpp"
#include "step_run_state.hpp"
#include "thread_scopes.hpp"

namespace ebbtide::plugin {

// Its place among what the plan knows, before the call itself counts as one of the ops. What a node
// unpacks after it is another event (trace.cpp).
void StepRun::noteReceive() noexcept {
  ++boundary_;
  ReceivePlace place;
  {
    std::lock_guard lock(mutex_);
    place.ops = aligned_ops_.come();
  }
  place.event = next_event_;
  const bool same = place.ops == last_receive_.ops && place.event == last_receive_.event;
  if (same) place.before = last_receive_.before + 1;
  last_receive_ = place;
}

// In the middle of a backward pass a node may still hold what its event drops.
void StepRun::runAhead() try {
  if (!notesReceives() || live_uses_ == 0) return;
  if (torch::autograd::get_current_graph_task_id() >= 0) return;
  if (device_.lanes.capture() != DeviceLanes::Capture::kNone) return;
  const RestoreScope one_at_a_time(*this);
  const std::vector<Plan::Wait>& waits = options_.plan->waits;
  if (off_plan_ || next_wait_ == waits.size()) return;
  const Plan::Wait& wait = waits[next_wait_];
  const ReceivePlace& at = last_receive_;
  const bool early = at.ops < wait.ops || (at.ops == wait.ops && at.before < wait.before);
  if (early || at.event != wait.event || !canRun(wait.prelude)) return;
  const auto start = Clock::now();
  const LaneScope lane(device_.lanes, lane_);
  finishEvent();
  ++next_wait_;
  if (!runSteps(wait.prelude)) return;
  std::int64_t replays = 0;
  for (const scheduler::Step& step : wait.prelude)
    replays += step.kind == scheduler::Step::Kind::kRun ? 1 : 0;
  session_.countReplaysAhead(replays, nanosecondsSince(start));
} catch (const std::exception& error) {
  // Where a saved tensor needs what was not restored, that says why.
  std::lock_guard lock(mutex_);
  leavePlan(std::string("replays ahead of a message failed: ") + error.what());
}

// Those of waits that did not come before the event. False: nothing more is to be done.
bool StepRun::runDueWaits(std::int32_t event) {
  const std::vector<Plan::Wait>& waits = options_.plan->waits;
  while (next_wait_ < waits.size() && waits[next_wait_].event <= event) {
    const std::vector<scheduler::Step>& steps = waits[next_wait_++].prelude;
    if (!canRun(steps)) {
      std::lock_guard lock(mutex_);
      leavePlan("backward event " + std::to_string(event) + " came too early");
      return false;
    }
    if (!runSteps(steps)) return false;
  }
  return true;
}

}  // namespace ebbtide::plugin
