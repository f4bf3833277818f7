// What a Session does for the plan of its whole job, where its steps exchange messages with other
// ranks: all on the planning thread.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>

#include "ebbtide/scheduler/simulator.hpp"
#include "session.hpp"
#include "version.hpp"

namespace ebbtide::plugin {
namespace {

using std::chrono::steady_clock;

constexpr auto kCurveTime = std::chrono::milliseconds(2500);
constexpr auto kAdviceWait = std::chrono::seconds(5);  // in a step
constexpr std::size_t kMeasuredSteps = 5;              // the last ones: what a step takes

std::string hostName() {
  std::array<char, 256> name{};
  return gethostname(name.data(), name.size() - 1) == 0 ? name.data() : "";
}

}  // namespace

void Session::offerJobStore(RankJob::OpenStore open) {
  const std::lock_guard lock(mutex_);
  open_job_store_ = std::move(open);
}

// Ranks on a host's processors take turns at them; a GPU is a rank's own.
void Session::startRankJob() {
  const auto processors = static_cast<std::int32_t>(std::max(1L, sysconf(_SC_NPROCESSORS_ONLN)));
  const RankPlanning::Identity identity{
      .versions = {.plugin = kVersion, .torch = host_.torch_version},
      .global_rank = config_.rank,
      .host = hostName(),
      .host_processors = trainsElsewhere() ? 0 : std::max(1, processors / std::max(1, threads_))};
  const auto open_store = [this](const std::string& group) -> std::unique_ptr<JobStore> {
    RankJob::OpenStore open;
    {
      const std::lock_guard lock(mutex_);
      open = open_job_store_;
    }
    return open ? open(group) : nullptr;
  };
  rank_job_.emplace(
      identity,
      RankJob::Host{.open_store = open_store,
                    .say = [this](const std::string& text) { say(text); },
                    .debug = [this](const std::string& text) { debug(text); },
                    .take_stages = [this](const auto& stages) { return foundStages(stages); },
                    .fall_short = [this](const auto& of) { fallShort(of); },
                    .end_round = [this](const std::string& why) { endRound(why); }});
}

RankPlanning::Limits Session::jobLimits(std::int64_t cap,
                                        std::optional<std::int64_t> budget) const {
  const std::lock_guard lock(mutex_);
  return {.cap_bytes = cap,
          .planning_time = kCurveTime,
          .planner = config_.planner,
          .asks_stages = stage_budget_ && stage_budget_->asksOthers(),
          .budget_bytes = budget};
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
    const std::size_t count = std::min(step_seconds_.size(), kMeasuredSteps);
    std::vector<double> last(step_seconds_.end() - static_cast<std::ptrdiff_t>(count),
                             step_seconds_.end());
    if (!last.empty()) {
      const auto middle = last.begin() + static_cast<std::ptrdiff_t>(count / 2);
      std::nth_element(last.begin(), middle, last.end());
      progress.step_ns = static_cast<Nanoseconds>(*middle * 1e9);
    }
  }
  rank_job_->poll(steady_clock::now(), progress);
  if (const auto decision = rank_job_->takeDecision()) adopt(*decision);
} catch (const std::exception& error) {
  debug(std::string("the job's plan: ") + error.what());
}

// Others may ask for plans meanwhile.
void Session::tellJob(const scheduler::Trace& trace, const StepSchedule& own,
                      const RankPlanning::Limits& limits, int budget_changes) try {
  {
    const std::lock_guard lock(mutex_);
    if (budget_changes != budget_changes_) return;
    planning_ = false;
  }
  rank_job_->noteStep(trace, own, limits);
  {
    const std::lock_guard lock(mutex_);
    if (budget_changes != budget_changes_) return;  // it tells more soon
    told_job_ = true;
    if (!rank_job_->takesPart()) advised_ = true;  // by nobody
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
  if (std::exchange(said_short_, true)) return;
  if (stop_by_) stop_message_ += " In the pipeline " + taker + ".";
  const Bytes budget = this->budget().value_or(0);
  warn(
      fmt::format("to run its part of the pipeline without spilling this rank needs {}, its "
                  "budget is {}; {}",
                  formatBytes(budget + of.excess_bytes), formatBytes(budget), taker));
}

void Session::endRound(const std::string& why) {
  {
    const std::lock_guard lock(mutex_);
    advised_ = true;
    if (stage_budget_ && !stage_budget_->known() && !why.empty()) giveUpStage(why);
  }
  changed_.notify_all();
}

// The others are in this step too, or in the one before: they need some to tell what they have, and
// do so while this rank waits.
void Session::stopOnceAdvised() {
  std::unique_lock lock(mutex_);
  if (!stop_by_ || stop_ || awaitsStage()) return;
  const auto now = steady_clock::now();
  if (told_job_) {
    changed_.wait_until(lock, std::min(*stop_by_, now + kAdviceWait),
                        [this] { return advised_ || closing_; });
  }
  if (stop_by_ && !awaitsStage() && (advised_ || now >= *stop_by_)) stop_ = true;
}

// What may be planned with has changed since it was made: what is over that, and over what the
// rank runs by now, is made anew from the next recorded step.
void Session::adopt(const RankJob::Decision& decision) try {
  Planned planned;
  planned.step = decision.schedule.step;
  planned.result.schedule = decision.schedule.schedule;
  planned.result.planner = decision.schedule.planner;
  planned.simulated = scheduler::simulate(planned.step.graph, planned.result.schedule);
  int budget_changes = 0;
  {
    const std::lock_guard lock(mutex_);
    budget_changes = budget_changes_;
  }
  const Bytes cap = planningCap();
  planned.result.feasible = planned.simulated.peak_bytes <= cap;
  if (!planned.result.feasible) {
    const std::lock_guard lock(mutex_);
    const auto program = programs_.find(decision.trace.signature);
    if (program == programs_.end()) return;
    Program& known = program->second;
    const Bytes now = known.plan ? known.plan->predicted_peak_bytes : known.plain_peak_bytes;
    if (planned.simulated.peak_bytes > now) {
      known.askAgain();
      steps_to_record_ = std::max(steps_to_record_, 2);
      return;
    }
  }
  replayAhead(planned, cap);
  publish(decision.trace, planned, 0, budget_changes, decision.from_step);
} catch (const std::exception& error) {
  debug(std::string("the job's plan could not be used: ") + error.what());
}

std::shared_ptr<Plan> Session::planNow(Program& known, std::int64_t step) {
  if (known.later_plan != nullptr && step >= known.later_from)
    known.plan = std::exchange(known.later_plan, nullptr);
  return known.plan;
}

}  // namespace ebbtide::plugin
