#include "runtime/planning/job_client.hpp"

#include <algorithm>
#include <chrono>

#include "ebbtide/scheduler/simulator.hpp"
#include "job/host_share.hpp"
#include "version.hpp"

namespace ebbtide::plugin {
namespace {

constexpr auto kCurveTime = std::chrono::milliseconds(2500);
constexpr auto kFar = std::chrono::hours(24);  // condition variables count from now on

}  // namespace

JobClient::JobClient(const CurrentConfig& config, SessionGuard& guard, Process& process,
                     const std::atomic<bool>& ends, Tell say, Tell debug)
    : config_(config),
      guard_(guard),
      process_(process),
      ends_(ends),
      say_(std::move(say)),
      debug_(std::move(debug)) {}

void JobClient::offerStore(RankJob::OpenStore open) {
  open_store_.with(guard_.hold()) = std::move(open);
}

void JobClient::begin(const Here& here) {
  const HostShare share = hostShare();
  const RankPlanning::Identity identity{
      .versions = {.plugin = kVersion, .torch = here.torch_version},
      .global_rank = config_->rank,
      .host = share.host,
      .host_processors =
          here.of_gpu ? 0 : std::max(1, share.processors / std::max(1, here.threads))};
  const auto open_store = [this](const std::string& group) -> std::unique_ptr<JobStore> {
    const RankJob::OpenStore open = open_store_.with(guard_.hold());
    return open ? open(group) : nullptr;
  };
  std::function<void(const std::vector<std::int32_t>&)> see_stages;
  if (config_->budget.by_rank && config_->budget.by_rank->namesStages())
    see_stages = [this](const auto& stages) { process_.seeStages(stages); };
  job_.emplace(
      identity,
      RankJob::Process{.open_store = open_store,
                       .say = say_,
                       .debug = debug_,
                       .take_stages = [this](const auto& of) { return process_.foundStages(of); },
                       .fall_short = [this](const auto& of) { process_.fallShort(of); },
                       .see_stages = see_stages,
                       .end_round = [this](const std::string& why) { process_.endRound(why); },
                       .ends = &ends_});
}

void JobClient::beginAnew(const Here& here) {
  if (job_ && !job_->takesPart()) begin(here);
}

RankPlanning::Limits JobClient::limits(std::int64_t cap_bytes,
                                       std::optional<std::int64_t> budget_bytes,
                                       bool asks_stages) const {
  return {.cap_bytes = cap_bytes,
          .planning_time = kCurveTime,
          .planner = config_->planning.planner,
          .asks_stages = asks_stages,
          .budget_bytes = budget_bytes,
          .cancelled = &ends_};
}

void JobClient::tell(const scheduler::Trace& trace, const StepSchedule& own,
                     const RankPlanning::Limits& limits) {
  job_->noteStep(trace, own, limits);
}

bool JobClient::follow(const scheduler::Trace& trace, Planned& planned,
                       const RankPlanning::Limits& limits) {
  const StepSchedule own{planned.step, planned.result.schedule, planned.result.planner};
  auto followed = job_->follow(trace, own, limits);
  if (!followed) return false;
  put(std::move(*followed), limits.cap_bytes, planned);
  return true;
}

void JobClient::put(StepSchedule schedule, std::int64_t cap_bytes, Planned& planned) {
  planned.step = std::move(schedule.step);
  planned.result.schedule = std::move(schedule.schedule);
  planned.result.planner = std::move(schedule.planner);
  planned.simulated = scheduler::simulate(planned.step.graph, planned.result.schedule);
  planned.result.feasible = planned.simulated.peak_bytes <= cap_bytes;
}

void JobClient::poll(Time now, JobProgress progress) {
  job_->poll(now, progress);
  if (const auto decision = job_->takeDecision()) process_.adopt(*decision);
}

JobClient::Time JobClient::nextPoll() const {
  return std::min(job_->nextPoll(), std::chrono::steady_clock::now() + kFar);
}

void JobClient::end() {
  if (job_) traffic_ = job_->traffic();
  job_.reset();
}

}  // namespace ebbtide::plugin
