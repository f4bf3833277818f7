#include "job/rank_job.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "job/job_planner.hpp"

namespace ebbtide::plugin {
namespace {

// Programs that a rank reports: of one that has another step each time nothing is planned.
constexpr int kMostStudies = 3;

double milliseconds(Nanoseconds ns) {
  return static_cast<double>(ns) * 1e-6;
}

}  // namespace

RankJob::RankJob(RankPlanning::Identity identity, Process process)
    : planning_(std::move(identity)), process_(std::move(process)) {}

JobCallbacks RankJob::callbacks() {
  return {.plan =
              [this, stop = process_.ends](const std::vector<RankReport>& reports) {
                seeStages(reports);
                return planJob(reports, stop);
              },
          .find = [this](const std::string& text) { takeFindings(text); },
          .prepare = [this](const std::string& text) { return prepare(text); },
          .commit = [this](std::int64_t step) { commit(step); },
          .keep = [this](const std::string& why) { keepOwn(why); },
          .again = [this](const std::string& why) { keepOwnForNow(why); },
          .say = process_.say,
          .debug = process_.debug};
}

void RankJob::noteStep(const scheduler::Trace& trace, const StepSchedule& own,
                       const RankPlanning::Limits& limits) {
  if (trace.group_size < 2) return;
  const bool lost = agreement_ != nullptr && !agreement_->alive();
  const bool same_group = !lost && trace.group == group_ && trace.group_rank == group_rank_ &&
                          trace.group_size == group_size_;
  const bool same_program = planning_.studied(trace.signature) && same_group;
  const bool same_budget = !withdrawn_ && limits.budget_bytes == budget_bytes_ &&
                           limits.asks_stages == report_.asks_stages;
  if (!same_program || !same_budget) {
    if (!same_program && ++studies_ > kMostStudies) return;
    plan_.reset();
    prepared_.reset();
    if (!same_group) {
      agreement_.reset();
      group_ = trace.group;
      group_rank_ = trace.group_rank;
      group_size_ = trace.group_size;
      auto store = process_.open_store(group_);
      if (store == nullptr) return;
      auto counted = std::make_unique<CountedJobStore>(std::move(store), traffic_);
      agreement_ =
          std::make_unique<JobAgreement>(std::move(counted), group_rank_, group_size_, callbacks());
    }
    report_ = planning_.study(trace, own, limits);
    budget_bytes_ = limits.budget_bytes;
    withdrawn_ = false;
    if (!report_.unable.empty()) process_.debug("no part in a plan of the job: " + report_.unable);
    if (agreement_) agreement_->report(report_);
  }
  noted_ = {trace, own, limits};
}

std::optional<StepSchedule> RankJob::follow(const scheduler::Trace& trace, const StepSchedule& own,
                                            const RankPlanning::Limits& limits) {
  auto followed = plan_ ? planning_.follow(*plan_, trace, own, limits) : std::nullopt;
  follows_ = followed.has_value();
  return followed;
}

void RankJob::poll(Time now, JobProgress progress) {
  if (agreement_) agreement_->poll(now, progress);
}

RankJob::Time RankJob::nextPoll() const {
  return agreement_ ? agreement_->nextPoll() : Time::max();
}

std::optional<JobTraffic> RankJob::traffic() const {
  return group_size_ > 0 ? std::optional(traffic_) : std::nullopt;
}

void RankJob::seeStages(const std::vector<RankReport>& reports) const {
  const bool first = std::any_of(reports.begin(), reports.end(),
                                 [](const RankReport& report) { return report.global_rank == 0; });
  if (!process_.see_stages || !first) return;
  if (const auto stages = stagesOf(reports)) process_.see_stages(*stages);
}

// With other budgets other plans are best: a rank whose budget changes is out until it has one.
void RankJob::takeFindings(const std::string& text) {
  const JobFindings findings = findingsFromText(text);
  const JobFindings::Rank& mine = findings.ranks.at(static_cast<std::size_t>(group_rank_));
  if (report_.asks_stages && !mine.stages.empty()) {
    report_.asks_stages = false;
    if (process_.take_stages(mine.stages)) {
      withdrawn_ = true;
      agreement_->withdraw();
    } else {
      agreement_->report(report_);
    }
  }
  if (mine.excess_bytes > 0) process_.fall_short(mine);
}

std::optional<std::string> RankJob::prepare(const std::string& text) {
  const JobPlan plan = planFromText(text);
  auto schedule = planning_.follow(plan, noted_->trace, noted_->own, noted_->limits);
  process_.debug(
      fmt::format("a plan for the job ({}): its step takes {:.1f} ms, with each rank's own plan "
                  "{:.1f} ms, at best {:.1f} ms; {}",
                  plan.method, milliseconds(plan.makespan_ns), milliseconds(plan.own_makespan_ns),
                  milliseconds(plan.bound_ns),
                  schedule ? "this rank changes its plan" : "this rank's own is kept"));
  prepared_ = {plan, noted_->trace, std::move(schedule)};
  return std::nullopt;
}

// Nothing is prepared where the rank has come to another program since.
void RankJob::commit(std::int64_t step) {
  process_.end_round("");
  if (!prepared_) return;
  Prepared now = *std::exchange(prepared_, std::nullopt);
  plan_ = std::move(now.plan);
  if (now.schedule) {
    follows_ = true;
    decision_ = {std::move(now.trace), std::move(*now.schedule), step};
  } else {
    useOwn(step);
  }
}

void RankJob::keepOwn(const std::string& why) {
  process_.end_round(why);
  keepOwnForNow(why);
}

void RankJob::keepOwnForNow(const std::string& why) {
  process_.debug("this rank keeps its own plan: " + why);
  prepared_.reset();
  plan_.reset();
  useOwn(0);
}

void RankJob::useOwn(std::int64_t from_step) {
  if (std::exchange(follows_, false) && noted_) decision_ = {noted_->trace, noted_->own, from_step};
}

}  // namespace ebbtide::plugin
