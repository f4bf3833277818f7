// What a Session does for the plan of its whole job, where its steps exchange messages with other
// ranks: all on the planning thread.
#include <fmt/format.h>

#include <algorithm>

#include "ebbtide/scheduler/simulator.hpp"
#include "job/host_share.hpp"
#include "runtime/session.hpp"
#include "version.hpp"

namespace ebbtide::plugin {
namespace {

using std::chrono::steady_clock;

constexpr auto kCurveTime = std::chrono::milliseconds(2500);

}  // namespace

void Session::offerJobStore(RankJob::OpenStore open) {
  const std::lock_guard lock(mutex_);
  open_job_store_ = std::move(open);
}

// Ranks on a host's processors take turns at them; a GPU is a rank's own.
void Session::startRankJob() {
  const HostShare share = hostShare();
  const bool of_gpu = [this] {
    const std::lock_guard lock(mutex_);
    return trained_.isElsewhere();
  }();
  const RankPlanning::Identity identity{
      .versions = {.plugin = kVersion, .torch = host_.torch_version},
      .global_rank = config_->rank,
      .host = share.host,
      .host_processors = of_gpu ? 0 : std::max(1, share.processors / std::max(1, threads_))};
  const auto open_store = [this](const std::string& group) -> std::unique_ptr<JobStore> {
    RankJob::OpenStore open;
    {
      const std::lock_guard lock(mutex_);
      open = open_job_store_;
    }
    return open ? open(group) : nullptr;
  };
  std::function<void(const std::vector<std::int32_t>&)> see_stages;
  if (config_->budgets && config_->budgets->namesStages()) {
    see_stages = [this](const auto& stages) {
      const std::lock_guard lock(mutex_);
      checkStageEntries(stages);
    };
  }
  rank_job_.emplace(
      identity,
      RankJob::Host{.open_store = open_store,
                    .say = [this](const std::string& text) { say(text); },
                    .debug = [this](const std::string& text) { debug(text); },
                    .take_stages = [this](const auto& stages) { return foundStages(stages); },
                    .fall_short = [this](const auto& of) { fallShort(of); },
                    .see_stages = see_stages,
                    .end_round = [this](const std::string& why) { endRound(why); },
                    .ends = &ends_});
}

RankPlanning::Limits Session::jobLimits(std::int64_t cap,
                                        std::optional<std::int64_t> budget) const {
  const std::lock_guard lock(mutex_);
  return {.cap_bytes = cap,
          .planning_time = kCurveTime,
          .planner = config_->planner,
          .asks_stages = budget_.asksOthers(),
          .budget_bytes = budget,
          .cancelled = &ends_};
}

steady_clock::time_point Session::nextLook() const {
  constexpr auto kFar = std::chrono::hours(24);  // condition variables count from now on
  return std::min(rank_job_->nextPoll(), steady_clock::now() + kFar);
}

void Session::pollJob() try {
  JobProgress progress;
  {
    const std::lock_guard lock(mutex_);
    progress.step = steps_;
    if (const auto step_time = stepTime())
      progress.step_ns = static_cast<Nanoseconds>(step_time->seconds * 1e9);
  }
  rank_job_->poll(steady_clock::now(), progress);
  if (const auto decision = rank_job_->takeDecision()) adopt(*decision);
} catch (const std::exception& error) {
  debug(std::string("the job's plan: ") + error.what());
}

// Others may ask for plans meanwhile.
void Session::tellJob(const scheduler::Trace& trace, const StepSchedule& own,
                      const RankPlanning::Limits& limits, int budget_number) try {
  {
    const std::lock_guard lock(mutex_);
    if (budget_number != budget_.number()) return;
    planning_ = false;
  }
  rank_job_->noteStep(trace, own, limits);
  {
    const std::lock_guard lock(mutex_);
    if (budget_number != budget_.number()) return;  // it tells more soon
    stop_.noteTold(rank_job_->takesPart());
  }
  changed_.notify_all();
} catch (const std::exception& error) {
  debug(std::string("no part in a plan of the job: ") + error.what());
}

// False: the rank's own is the better one, or the job has none.
bool Session::followJob(const scheduler::Trace& trace, Planned& planned,
                        const RankPlanning::Limits& limits) {
  const StepSchedule own{planned.step, planned.result.schedule, planned.result.planner};
  auto followed = rank_job_->follow(trace, own, limits);
  if (!followed) return false;
  planned.step = std::move(followed->step);
  planned.result.schedule = std::move(followed->schedule);
  planned.result.planner = std::move(followed->planner);
  planned.simulated = scheduler::simulate(planned.step.graph, planned.result.schedule);
  planned.result.feasible = planned.simulated.peak_bytes <= limits.cap_bytes;
  return true;
}

// Before the round ends: what a step that cannot fit is stopped with.
void Session::fallShort(const JobFindings::Rank& of) {
  const std::lock_guard lock(mutex_);
  const std::string taker = takerText(of);
  if (!budget_.isNew(RankBudget::Message::kShort)) return;
  stop_.advise(" In the pipeline " + taker + ".");
  const Bytes budget = this->budget().value_or(0);
  const Bytes needed = trained_.planningCapBytes() + trained_.unplannedBytes() + of.excess_bytes;
  warn(
      fmt::format("to run its part of the pipeline without spilling this rank needs {}, its "
                  "budget is {}; {}",
                  formatBytes(trained_.budgetWithRoomFor(needed)), formatBytes(budget), taker));
}

void Session::endRound(const std::string& why) {
  {
    const std::lock_guard lock(mutex_);
    stop_.noteRoundEnded();
    if (!why.empty() && budget_.giveUp()) sayStageGivenUp(why);
  }
  changed_.notify_all();
}

void Session::stopOnceAdvised() {
  Held held = mutex_.hold();
  if (budget_.isOpen()) return;
  const auto now = steady_clock::now();
  if (const auto until = stop_.waitUntil(now))
    held.waitUntil(changed_, *until, [this] { return stop_.advised() || closing_; });
  if (!budget_.isOpen()) stop_.decide(now);
}

// What may be planned with has changed since it was made: what is over that, and over what the
// rank runs by now, is made anew from the next recorded step.
void Session::adopt(const RankJob::Decision& decision) try {
  Planned planned;
  planned.step = decision.schedule.step;
  planned.result.schedule = decision.schedule.schedule;
  planned.result.planner = decision.schedule.planner;
  planned.simulated = scheduler::simulate(planned.step.graph, planned.result.schedule);
  int budget_number = 0;
  {
    const std::lock_guard lock(mutex_);
    budget_number = budget_.number();
  }
  const Bytes cap = trained_.planningCapBytes();
  planned.result.feasible = planned.simulated.peak_bytes <= cap;
  if (!planned.result.feasible) {
    const std::lock_guard lock(mutex_);
    const auto program = programs_.find(decision.trace.signature);
    if (program == programs_.end()) return;
    Program& known = program->second;
    const Bytes now = known.plan ? known.plan->predicted_peak_bytes : known.plain_peak_bytes;
    if (planned.simulated.peak_bytes > now) {
      known.askAgain();
      to_record_.atLeast(2);
      return;
    }
  }
  search_.replayAhead(decision.trace, planned, cap);
  publish(decision.trace, planned, 0, budget_number, decision.from_step);
} catch (const std::exception& error) {
  debug(std::string("the job's plan could not be used: ") + error.what());
}

}  // namespace ebbtide::plugin
