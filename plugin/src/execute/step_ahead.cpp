// Replays ahead of a receive: the program has asked for a message and would wait for it. What it
// sends in the same row goes out first: another rank may wait for that.
//
//   program:   recv, send ──► wait ........ ──► backward, whose gradient came
//   here:                 replays of that      its prelude: nothing is left to do
//
// On the thread that trains, below autograd, as all replays. What does not come where it is planned
// runs at the event before which it has to: there the schedule had it first.
#include <torch/csrc/autograd/graph_task.h>

#include "base/elapsed.hpp"
#include "base/thread_scopes.hpp"
#include "execute/step_run_state.hpp"
#include "execute/traced_scope.hpp"

namespace ebbtide::plugin {

// Its place among what the plan knows, before the call itself counts as one of the ops. What a node
// unpacks after it is another event (graph_builder.cpp).
void StepRun::noteMessage(bool receive) noexcept {
  if (receive) follower_.cursor().touch();
  OpId ops = kNone;
  {
    std::lock_guard lock(mutex_);
    ops = follower_.opsCome();
  }
  follower_.cursor().noteMessage(ops);
}

// In the middle of a backward pass a node may still hold what its event drops.
void StepRun::runAhead() try {
  if (!notesReceives() || live_uses_ == 0) return;
  if (torch::autograd::get_current_graph_task_id() >= 0) return;
  if (device_.lanes.capture() != DeviceLanes::Capture::kNone) return;
  const RestoreScope one_at_a_time(*this);
  const TrialScope trial;         // what fails here is no error of the program's
  while (!follower_.offPlan()) {  // of a row with several receives
    const Plan::Wait* const wait = follower_.cursor().reached();
    if (wait == nullptr || !canRun(wait->prelude)) return;
    const TracedScope traced(session_.runTrace(), TracedSpan::Kind::kAhead);
    const auto start = Clock::now();
    const LaneScope lane(device_.lanes, lane_);
    finishEvent();
    follower_.cursor().passWait();
    if (!runSteps(wait->prelude)) return;
    std::int64_t replays = 0;
    for (const scheduler::Step& step : wait->prelude)
      replays += step.kind == scheduler::Step::Kind::kRun ? 1 : 0;
    session_.counters().addReplaysAhead(replays, nanosecondsSince(start));
  }
} catch (const std::exception& error) {
  // Where a saved tensor needs what was not restored, that says why.
  std::lock_guard lock(mutex_);
  leavePlan(std::string("replays ahead of a message failed: ") + error.what());
}

// Those of waits that did not come before the event. False: nothing more is to be done.
bool StepRun::runDueWaits(std::int32_t event) {
  while (const Plan::Wait* const wait = follower_.cursor().due(event)) {
    follower_.cursor().passWait();
    if (!canRun(wait->prelude)) {
      std::lock_guard lock(mutex_);
      leavePlan("backward event " + std::to_string(event) + " came too early");
      return false;
    }
    if (!runSteps(wait->prelude)) return false;
  }
  return true;
}

}  // namespace ebbtide::plugin
