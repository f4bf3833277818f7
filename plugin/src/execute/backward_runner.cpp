#include "execute/backward_runner.hpp"

#include <torch/csrc/autograd/graph_task.h>

#include <mutex>
#include <optional>
#include <string>

#include "base/elapsed.hpp"
#include "base/message_table.hpp"
#include "base/thread_scopes.hpp"
#include "execute/traced_scope.hpp"
#include "record/replay_errors.hpp"

namespace ebbtide::plugin {

using scheduler::kNone;
using scheduler::Step;
using EventKind = scheduler::TraceEvent::Kind;

// On the step's lane, whoever unpacks.
c10::Storage BackwardRunner::restore(UseId use) {
  const StepLock::Restoring one_at_a_time(lock_);
  const QuietScope quiet;
  if (device_.lanes.capture() == DeviceLanes::Capture::kHere) return unpackCaptured(use);
  c10::Storage storage;
  bool read_elsewhere = false;
  {
    const LaneScope lane(device_.lanes, lane_);
    storage = unpack(use);
    read_elsewhere = lane.switched() && device_.blocks.isOurs(storage);
  }
  if (read_elsewhere) device_.lanes.readHere(storage);
  return storage;
}

c10::Storage BackwardRunner::unpack(UseId use) {
  noteBackward();
  if (phases_.finished()) events_.noteLateBackward(phases_.finishedByHint());
  if (!device_.contents.onHost()) {
    const StepLock::Freeing lock(lock_);
    values_.dropLate(lock, follower_.offPlan());
  }
  if (torch::autograd::get_current_graph_task_id() >= 0)
    graphs_.beginUnpack(torch::autograd::get_current_graph_task_keep_graph());
  if (const auto event = noteUnpack(use)) beginEvent(*event);
  ValueId value = kNone;
  {
    const StepLock::Held lock(lock_);
    noteLeftOver(lock, use);
    value = values_.latest(lock, saved_.valueOf(use));
    if (value != kNone) {
      values_.at(lock, value).touch(follower_.cursor().boundary());
      if (c10::Storage present = values_[value].stored.storage()) return present;
    }
  }
  return restorer_.materialize(value, 0);
}

// While a graph is captured nothing can be computed again or compared.
c10::Storage BackwardRunner::unpackCaptured(UseId use) {
  const StepLock::Freeing lock(lock_);
  kept_values_.leavePlan(lock, "backward while a graph is captured");
  const ValueId id = values_.latest(lock, saved_.valueOf(use));
  c10::Storage storage = id != kNone ? values_[id].stored.storage() : c10::Storage();
  TORCH_CHECK(
      storage,
      withCode("ebbtide: a graph is captured of a backward pass whose forward pass was not, and "
               "what that saved has been dropped. Capture both, or train without EBBTIDE_BUDGET"));
  return storage;
}

std::optional<std::int32_t> BackwardRunner::noteUnpack(UseId use) {
  if (!log_ && !follower_.follows()) return std::nullopt;
  const StepLock::Held lock(lock_);
  if (log_) {
    values_.logLastReferences(lock);
    log_->add(EventKind::kUnpack, use);
  }
  // What the program does beside its plan is no event of it.
  if (!follower_.followsUse(use)) return std::nullopt;
  return follower_.eventOf(use, saved_.visits(use));
}

// Has all that the event's replays and fetches begin with been there in this step?
bool BackwardRunner::canRun(const std::vector<Step>& prelude) const {
  const StepLock::Held lock(lock_);
  return follower_.canRun(prelude);
}

ValueId BackwardRunner::stepsValue(ValueId planned) const {
  const StepLock::Held lock(lock_);
  return follower_.values().step(planned);
}

// Is it of a graph that is kept, though the plan reads it no more? The program may run it again all
// the same.
void BackwardRunner::noteLeftOver(const StepLock::Held&, UseId id) {
  const bool left = graphs_.keepsNow() && follower_.isUnpackedFor(id, saved_.visits(id));
  graphs_.addLeftOver(saved_.setLeftOver(id, left));
}

void BackwardRunner::runPrelude(std::int32_t event) {
  follower_.cursor().begin(event);
  if (!runDueWaits(event)) return;
  const std::vector<Step>& steps = follower_.preludeOf(event);
  if (!steps.empty() && !canRun(steps)) {
    leavePlan("backward event " + std::to_string(event) + " came too early");
    return;
  }
  if (runSteps(steps)) follower_.cursor().passPrelude();
}

// False: a replay failed, and the plan with it.
bool BackwardRunner::runSteps(const std::vector<Step>& steps) {
  std::vector<ValueId> given_up;
  for (std::size_t i = 0; i < steps.size(); ++i) {
    if (steps[i].kind == Step::Kind::kDrop) {
      drops_.applyDrops(steps[i].id);
      continue;
    }
    given_up.clear();
    for (std::size_t j = i + 1; j < steps.size() && steps[j].kind == Step::Kind::kDrop; ++j) {
      given_up.push_back(stepsValue(steps[j].id));
    }
    std::optional<TrialScope> trial;
    std::optional<allocator::ReclaimingResource::WithinBudget> within;
    if (follower_.verifies()) {
      trial.emplace();
      if (verifications_.keepsWithinBudget()) within.emplace();
    }
    try {
      if (steps[i].kind == Step::Kind::kFetch) {
        restorer_.fetchCopy(steps[i].id);
      } else {
        restorer_.replayPlanned(steps[i].id, given_up);
      }
    } catch (const std::exception& error) {
      if (follower_.verifies()) {
        // the originals are at hand: it costs nothing but the plan
        restorer_.endVerification(error);
        return false;
      }
      if (isOutOfMemory(error)) throw;
      // What is read may be there all the same: each is asked for on its own from now on.
      leavePlan(messageOf(error));
      return false;
    }
  }
  return true;
}

// Those of waits that did not come before the event. False: nothing more is to be done.
bool BackwardRunner::runDueWaits(std::int32_t event) {
  while (const Plan::Wait* const wait = follower_.cursor().due(event)) {
    follower_.cursor().passWait();
    if (!canRun(wait->prelude)) {
      leavePlan("backward event " + std::to_string(event) + " came too early");
      return false;
    }
    if (!runSteps(wait->prelude)) return false;
  }
  return true;
}

// Replays ahead of a receive: the program has asked for a message and would wait for it. What it
// sends in the same row goes out first: another rank may wait for that.
//
//   program:   recv, send ──► wait ........ ──► backward, whose gradient came
//   here:                 replays of that      its prelude: nothing is left to do
//
// On the thread that trains, below autograd, as all replays. What does not come where it is planned
// runs at the event before which it has to: there the schedule had it first.
//
// In the middle of a backward pass a node may still hold what its event drops.
void BackwardRunner::runAhead() try {
  if (!notesReceives() || saved_.live() == 0) return;
  if (torch::autograd::get_current_graph_task_id() >= 0) return;
  if (device_.lanes.capture() != DeviceLanes::Capture::kNone) return;
  const StepLock::Restoring one_at_a_time(lock_);
  const TrialScope trial;         // what fails here is no error of the program's
  while (!follower_.offPlan()) {  // of a row with several receives
    const Plan::Wait* const wait = follower_.cursor().reached();
    if (wait == nullptr || !canRun(wait->prelude)) return;
    const TracedScope traced(trace_, TracedSpan::Kind::kAhead);
    const auto start = Clock::now();
    const LaneScope lane(device_.lanes, lane_);
    finishEvent();
    follower_.cursor().passWait();
    if (!runSteps(wait->prelude)) return;
    std::int64_t replays = 0;
    for (const scheduler::Step& step : wait->prelude)
      replays += step.kind == scheduler::Step::Kind::kRun ? 1 : 0;
    counters_.addReplaysAhead(replays, nanosecondsSince(start));
  }
} catch (const std::exception& error) {
  // Where a saved tensor needs what was not restored, that says why.
  leavePlan(std::string("replays ahead of a message failed: ") + error.what());
}

// Its place among what the plan knows, before the call itself counts as one of the ops. What a node
// unpacks after it is another event (graph_builder.cpp).
void BackwardRunner::noteMessage(bool receive) noexcept {
  if (receive) follower_.cursor().touch();
  OpId ops = kNone;
  {
    const StepLock::Held lock(lock_);
    ops = follower_.opsCome();
  }
  follower_.cursor().noteMessage(ops);
}

// The event's saved values are with the node by now: what the plan gives up after it can go.
void BackwardRunner::finishEvent() {
  if (const std::vector<ValueId>* const drops = follower_.endEvent()) drops_.applyDrops(*drops);
}

// In a destructor, maybe of another thread, or while a graph is captured. What cannot be copied
// stays until the step ends.
void BackwardRunner::finishLastEvent() noexcept try {
  if (follower_.cursor().current() == kNone ||
      device_.lanes.capture() != DeviceLanes::Capture::kNone) {
    return;
  }
  const LaneScope lane(device_.lanes, lane_);
  finishEvent();
} catch (const std::exception& error) {
  lines_.debug(std::string("values stay until their step ends: ") + error.what());
}

// And the replays and fetches before it, unless that is the present one.
void BackwardRunner::beginEvent(std::int32_t event) {
  if (event == follower_.cursor().current()) return;
  finishEvent();
  if (!follower_.cursor().isNext(event)) {
    leavePlan("backward event " + std::to_string(event) + " instead of " +
              std::to_string(follower_.cursor().next()));
  }
  if (!follower_.offPlan()) runPrelude(event);
}

void BackwardRunner::leavePlan(const std::string& why) {
  const StepLock::Held lock(lock_);
  kept_values_.leavePlan(lock, why);
}

void BackwardRunner::finishLast() noexcept {
  const StepLock::Restoring restoring(lock_, std::try_to_lock);
  if (restoring.held()) finishLastEvent();
}

bool BackwardRunner::notesReceives() const noexcept {
  return follower_.cursor().expectsReceives() && !follower_.offPlan();
}

void BackwardRunner::noteBackward() noexcept {
  if (phases_.noteBackward()) events_.noteBackwardBegins();
}

void BackwardRunner::noteBackwardNode(const char* name) {
  follower_.cursor().touch();
  noteBackward();
  if (!log_) return;
  if (phases_.beginsPass(torch::autograd::get_current_graph_task_id()))
    log_->add(EventKind::kBackwardPass, 0);
  log_->addNode(name);
}

}  // namespace ebbtide::plugin
