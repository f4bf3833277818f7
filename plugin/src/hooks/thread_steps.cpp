#include "hooks/thread_steps.hpp"

#include <ATen/Parallel.h>
#include <c10/core/GradMode.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "base/spare_blocks.hpp"
#include "device/torch/training_device.hpp"
#include "execute/live_runs.hpp"
#include "hooks/cuda_side.hpp"
#include "nccl/nccl_side.hpp"
#include "record/replay_errors.hpp"
#include "runtime/run/early_end.hpp"
#include "runtime/session.hpp"

namespace ebbtide::plugin {
namespace {

// Forward passes after a backward pass in one step, beyond which its end is guessed again: of a
// step that goes on while parameters are written, or whose program gives no more hints.
constexpr int kMostPhases = 32;
constexpr int kMostHints = 4;  // that a step waits for its backward pass

// The device of what is trained among them.
std::optional<c10::Device> trainedOn(c10::ArrayRef<const c10::IValue> inputs) {
  std::optional<c10::Device> found;
  forEachTensor(inputs, [&](int, int, const at::Tensor& tensor) {
    if (!tensor.requires_grad()) return;
    if (!found && trainsOn(tensor.device())) found = tensor.device();
    if (isSecondDevice(tensor.device())) Session::current()->drops().keepEverything(kTwoDevices);
  });
  return found;
}

// A step that records no ops still ends when what it trains is written: the first op's parameters
// tell.
void watchParameters(StepRun& run, c10::ArrayRef<const c10::IValue> inputs) {
  forEachTensor(inputs, [&](int, int, const at::Tensor& tensor) {
    if (tensor.requires_grad() && tensor.is_leaf() && isPlain(tensor))
      run.recorder().graphInput(tensor);
  });
}

RunParts partsOf(Session& session) {
  return {.events = session.course(),
          .verifications = session.verifications(),
          .drops = session.drops(),
          .outage = session.outage(),
          .trust = session.replayTrust(),
          .trained = session.trained(),
          .spills = session.trained().spills(),
          .counters = session.outputs().counters,
          .trace = session.outputs().trace,
          .lines = session.lines()};
}

void warnOfUnreadSpills(Session& session, const StepRun& run) {
  if (session.outage().saidUnread()) return;
  const StepRun::UnreadSpills unread = liveRuns().leftUnread(run);
  if (unread.bytes == 0) return;
  const auto most = std::max_element(
      unread.by_op.begin(), unread.by_op.end(),
      [](const auto& left, const auto& right) { return left.second < right.second; });
  session.outage().warnOfUnread(unread.bytes,
                                most != unread.by_op.end() ? most->first : "no recorded operation");
}

}  // namespace

ThreadSteps::~ThreadSteps() {
  if ((run_ == nullptr && waiting_.empty()) || RunLife::inChild()) return;
  try {
    endAll();
  } catch (const std::exception& error) {
    Session::current()->drops().disable(messageOf(error));
  }
}

void ThreadSteps::endAll() {
  endWaiting(kMostHints + 1);
  endRun(hinted_);
}

void ThreadSteps::end(const std::shared_ptr<StepRun>& run, bool by_hint, bool waited) {
  StepSummary summary;
  summary.opened = run->options().opened;
  summary.had_backward = run->phases().backwardSeen();
  const PlanFollower& follower = run->follower();
  summary.off_plan = follower.offPlan() || follower.doesMore();
  summary.alone = !liveRuns().others(run.get());
  summary.waited = waited;
  summary.uncounted_bytes = run->uncountedBytes();
  const auto& options = run->options();
  summary.plan = follower.plan();
  summary.trusted = follower.plan() && !follower.verifies();
  summary.followed = follower.followed();
  Session& session = *Session::current();
  const bool verification = summary.had_backward && follower.verifies();
  const bool compared_whole = run->comparedWhole();  // it may have done more all the same
  if (verification && (compared_whole || !summary.off_plan))
    session.verifications().verified(*follower.plan(), compared_whole);
  summary.observed = options.log && session.course().releaseLog(options.log);
  if (summary.observed && summary.had_backward && options.record_ops &&
      session.course().wantsTrace(summary)) {
    summary.trace = run->takeTrace();
    summary.recorded = true;
  }
  run->phases().endTraced();
  session.endStep(std::move(summary));
  run->phases().finish(by_hint);
  warnOfUnreadSpills(session, *run);
}

// What a refusal cut off might have run backward.
void ThreadSteps::noteEnded(const StepRun& run) {
  trained_ = trained_ || run.phases().backwardSeen();
  looked_on_ = looked_on_ || (!run.phases().backwardSeen() && !refused_);
}

void ThreadSteps::endRun(bool by_hint) {
  if (run_ == nullptr) return;
  marks_.leaveStep();
  end(run_, by_hint, false);
  noteEnded(*run_);
  run_.reset();
}

bool ThreadSteps::begin(c10::Device device) {
  if (EarlyEnd::begun()) return false;  // an exit function computes, or another thread
  Session& session = *Session::current();
  if (!chooseTrainingDevice(device)) return false;
  if (!trainingDevice().device.is_cpu()) measureGpuMargins();
  if (session.life().forked) session.trained().memory().setReclaimer(&liveRuns());
  session.wake(at::get_num_threads());
  endRun(false);
  if (session.course().measuredAll()) {
    EarlyEnd::end(session.config().end_after->folder, session.config().local_world_size);
    return false;
  }
  session.course().awaitPlan();
  const StepStart start = session.beginStep(trains());
  watchNccl(start.record_ops || session.outputs().trace.on());
  run_ = std::allocate_shared<StepRun>(
      SpareAllocator<StepRun>(), partsOf(session),
      StepRun::Options{start.record_ops, start.hooks, start.log, start.number, start.opened,
                       trains(), start.least_saved_bytes},
      start.plan);
  liveRuns().add(run_);
  marks_.joinStep(start.log);
  return true;
}

// What is the step's at this moment? What it sends comes of its own ops, though a parameter may
// have been written in its backward pass.
StepMarks::Place ThreadSteps::place(bool sends) const {
  const bool may_be_over = run_ == nullptr || (!hinted_ && run_->phases().backwardSeen());
  const auto over = [&] {
    return updated_ || (!sends && run_->liveUses() == 0 && run_->parametersChanged());
  };
  if (!may_be_over || (run_ != nullptr && !over())) return StepMarks::Place::kInStep;
  return at::GradMode::is_enabled() ? StepMarks::Place::kBetween : StepMarks::Place::kEvaluation;
}

bool ThreadSteps::isOver(c10::ArrayRef<const c10::IValue> inputs) {
  if (run_ == nullptr) return true;
  if (refused_ || (run_->outgrown() && run_->liveUses() == 0)) return true;
  if (!run_->phases().backwardSeen()) return run_->hasUses() && run_->liveUses() == 0;
  const bool long_step = run_->phases().forwardPhases() >= kMostPhases;
  if (hinted_ && !long_step) return false;
  // Another stream begins to train, and nothing of this step is left: it was a warm-up, as for
  // graphs.
  if (run_->liveUses() == 0 && !run_->onItsLane()) return true;
  if (!updated_ && !run_->parametersChanged() && !run_->readsAnotherPart(inputs)) return false;
  LateBackwards& late = Session::current()->course().lateBackwards();
  if (late.stepsGoOn() && run_->liveUses() > 0) {
    if (!long_step) return false;
    late.giveUp();  // some tensors are always left: nothing would ever end here
  }
  hinted_ = false;  // until the next one
  return true;
}

bool ThreadSteps::open(c10::ArrayRef<const c10::IValue> inputs) {
  if (hint_due_) takeHint();
  endWaiting(0);
  const bool open = run_ != nullptr && !refused_ && !run_->phases().paused() && !updated_ &&
                    !(run_->hasUses() && run_->liveUses() == 0);
  if (open) {
    giveMarks();
    return true;
  }
  const auto device = trainedOn(inputs);
  if (!device) return false;
  if (isOver(inputs) && !begin(*device)) return false;
  updated_ = refused_ = false;
  giveMarks();
  run_->phases().resume();
  if (!run_->recordsOps()) watchParameters(*run_, inputs);
  return true;
}

void ThreadSteps::noteBackwardNode(const char* name) {
  if (run_ != nullptr) run_->backward().noteBackwardNode(name);
  for (const Waiting& one : waiting_) one.run->backward().noteBackwardNode(name);
}

// -----------------------------------------------------------------------------------------------
// hints

void ThreadSteps::hint(bool busy) {
  hint_due_ = true;
  if (!busy) takeHint();
}

void ThreadSteps::takeHint() {
  hint_due_ = false;
  hinted_ = true;
  endWaiting(1);
  if (run_ == nullptr) return;
  if (run_->liveUses() == 0 || !Session::current()->course().lateBackwards().crossHints()) {
    endRun(true);
    return;
  }
  marks_.leaveStep();
  run_->backward().noteBackwardNode("");  // what the next steps hold is told apart from its last op
  waiting_.push_back({std::move(run_)});
  run_.reset();
}

// Of those that wait: what has run backward is over, and what waits for too long.
void ThreadSteps::endWaiting(int more_hints) {
  for (std::size_t i = 0; i < waiting_.size();) {
    waiting_[i].hints += more_hints;
    if (waiting_[i].run->liveUses() > 0 && waiting_[i].hints <= kMostHints) {
      ++i;
      continue;
    }
    const std::shared_ptr<StepRun> run = std::move(waiting_[i].run);
    waiting_.erase(waiting_.begin() + static_cast<std::ptrdiff_t>(i));
    end(run, true, true);
    noteEnded(*run);
  }
}

}  // namespace ebbtide::plugin
