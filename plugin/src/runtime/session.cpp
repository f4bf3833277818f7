#include "runtime/session.hpp"

#include <fmt/format.h>
#include <pthread.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <utility>

#include "base/message_table.hpp"
#include "base/said_line.hpp"
#include "runtime/exit_signal.hpp"
#include "version.hpp"

namespace ebbtide::plugin {
namespace {

std::atomic<Session*> the_session{nullptr};
std::atomic<bool> in_child{false};

}  // namespace

Session* Session::current() noexcept {
  return the_session.load(std::memory_order_acquire);
}

bool Session::inChild() noexcept {
  return in_child.load(std::memory_order_relaxed);
}

Session::Session(Config config, std::string torch_version, const RunControl::Make& make_control,
                 const scheduler::Planner* searches)
    : config_(std::move(config)),
      torch_version_(std::move(torch_version)),
      trained_(config_),
      metrics_(
          config_, torch_version_, [this](const std::string& text) { warn(text); },
          [this](const std::string& text) { debug(text); }),
      control_(make_control(*this)),
      planning_({.planner = config_->planner,
                 .replay_ahead = config_->replay_ahead,
                 .planning_time = config_->planning_time,
                 .work = config_->planning_work,
                 .in_its_place = searches},
                [this](const std::string& text) { debug(text); }),
      job_(
          config_, mutex_, *this, ends_, [this](const std::string& text) { say(text); },
          [this](const std::string& text) { debug(text); }),
      identity_({.guard = mutex_,
                 .config = config_,
                 .trained = trained_,
                 .metrics = metrics_,
                 .budget = budget_,
                 .control = *control_,
                 .discovery = discovery_,
                 .torch_version = torch_version_,
                 .settle_job =
                     [this] {
                       if (!ends_) job_.beginAnew(here());
                     },
                 .say = [this](const std::string& text) { say(text); },
                 .warn = [this](const std::string& text) { warn(text); }}),
      discovery_(config_, mutex_, identity_, ends_,
                 [this](const std::string& text) { warn(text); }),
      budget_({.guard = mutex_,
               .config = config_,
               .trained = trained_,
               .metrics = metrics_,
               .counters = counters_,
               .keeps_everything = keeps_everything_,
               .outage = outage_.state(),
               .steps = steps_,
               .to_record = to_record_,
               .taken = taken_,
               .figures = figures_,
               .programs = programs_,
               .may_be_advised = [this](const Held& held) { return job_.hasStore(held); },
               .say = [this](const std::string& text) { say(text); },
               .warn = [this](const std::string& text) { warn(text); }}),
      outlook_(budget_, ends_, [this](const std::string& text) { debug(text); }),
      plans_({.service = planning_,
              .budget = budget_,
              .outlook = outlook_,
              .outage = outage_,
              .job = job_,
              .trust = replay_trust_,
              .counters = counters_,
              .ends = ends_,
              .debug = [this](const std::string& text) { debug(text); }}) {}

Session::~Session() = default;

// Leaked on purpose: tensors freed during static destruction still reach the allocator.
void Session::start(Config config, std::string torch_version,
                    const RunControl::Make& make_control) {
  auto* session = new Session(std::move(config), std::move(torch_version), make_control);
  the_session.store(session, std::memory_order_release);
  pthread_atfork([] { current()->lockForFork(); }, [] { current()->unlockAfterFork(); },
                 [] {
                   if (current()->wakes_)
                     in_child = true;
                   else
                     current()->forked_ = true;
                   current()->unlockAfterFork();
                   current()->run_trace_.beInert();
                   current()->trained_.beInert();
                 });
  std::atexit([] {
    if (!in_child) current()->shutdown();
  });
}

// A child may run a graph of its parent backward, and lets go of it: so nothing that this takes may
// be left with a thread that the child does not have. In the order in which they are taken.
void Session::lockForFork() {
  mutex_.lockForFork();
  replay_trust_.lockForFork();
  trained_.lockForFork();
}

void Session::unlockAfterFork() {
  trained_.unlockAfterFork();
  replay_trust_.unlockAfterFork();
  mutex_.unlockAfterFork();
}

void Session::trainOn(allocator::DeviceMemory& memory, SpillTarget& spills, SetBudget set_budget,
                      TrainedMemory::MostBytes most_bytes, TrainedMemory::Facts facts) {
  const Held held = mutex_.hold();  // another thread may fork now
  if (!trained_.moveTo(memory, spills, std::move(set_budget), std::move(most_bytes),
                       std::move(facts)))
    return;
  trained_.measureOnly(budget_.measuresOnly(held));
  metrics_.noteBudget(budget());
}

// What it still does at the program's end nobody asked for: no line may contradict the last one.
void Session::say(const std::string& text) const {
  if (ends_ && PlanningService::onThread()) return;
  if (config_->log_level == "info" || config_->log_level == "debug") {
    sayLine(fmt::format("[ebbtide rank {}] {}", config_->rank, withCode(text)));
  }
}

void Session::warn(const std::string& text) const {
  if (ends_ && PlanningService::onThread()) return;
  if (config_->log_level != "off" && config_->log_level != "error") {
    sayLine(fmt::format("[ebbtide rank {}] warning: {}", config_->rank, withCode(text)));
  }
}

void Session::debug(const std::string& text) const {
  if (ends_ && PlanningService::onThread()) return;
  if (config_->log_level == "debug")
    sayLine(fmt::format("[ebbtide rank {}] debug: {}", config_->rank, text));
}

void Session::wake(int threads) {
  if (awake_) return;
  wakes_ = true;
  std::call_once(woken_, [this, threads] {
    threads_ = threads;
    if (forked_) trained_.beActive();
    readPlace();
    budget_.verdict().noteStart(/*own=*/!forked_);
    metrics_.noteStart();
    run_trace_.recordUntilExit();
    budget_.checkMemory();
    shows_ = !forked_;  // a data loader's worker that runs forward passes is no rank
    if (shows_) discovery_.show();
    planning_.begin([this] { planLoop(); });
    awake_ = true;
    if (current() == this) ExitSignal::install([] { current()->shutdown(); });
  });
}

// -----------------------------------------------------------------------------------------------
// steps

// Plans that were made for it are in force too.
void Session::takeBudget(const Held& held) {
  const int before = budget_.number(held);
  const std::optional<std::string> size = budget_.take(held);
  if (budget_.number(held) != before) planning_.cut(held);  // it searches for the one before
  if (!size) return;
  plans_.beginBudget(held);
  control_->takePlan(held, *size);
}

StepStart Session::beginStep(bool trains) {
  if (current() == this) ExitSignal::takeBack();
  if (discovery_.lookForGroup()) planning_.wake();
  const Held held = mutex_.hold();
  // Of what ran since the last one ended: behind a hint an evaluation is no step's. Or of a step of
  // another thread, which goes on.
  if (steps_ > 0 || budget_.openSteps(held).any()) figures_.notePeaks(memory().statistics());
  BudgetVerdict& verdict = budget_.verdict();
  budget_.measure(held, memory().ledger().liveBytes(), trains);
  takeBudget(held);
  verdict.forgetFailed(held);
  verdict.beginStep(held, memory().ledger().liveBytes(), trains);
  outage_.take(held);
  StepStart start;
  start.number = steps_ + 1;
  start.opened = budget_.beginStep(held);
  run_trace_.beginStep(start.number);
  snapshots_.beginStep(start.number);
  start.plan = programs_.expectedPlan(start.number);
  // The guess may be wrong, and the step one that has a plan: its first op tells.
  const bool observed = (to_record_.any() || programs_.anyPlan()) && !keepsEverything();
  start.record_ops = observed || pressed();
  start.hooks = start.record_ops || budget().has_value() || late_backwards_.stepsGoOn() ||
                late_backwards_.crossHints();
  if (keepsEverything()) {
    start.plan = nullptr;
    start.record_ops = start.hooks = false;
  }
  outage_.allowOverrunFor(held, start.plan.get());
  memory().resetPeaks();
  const allocator::Statistics memory = this->memory().statistics();
  if (observed && config_->own_allocator && turn_.isFree(trains)) {
    start.log = std::make_shared<EventLog>(memory.allocated_bytes, &this->memory().ledger());
    turn_.take(start.log, trains);
    trained_.observer().passTo(start.log);
    if (trained_.placement()) trained_.placement()->beginStep(start.plan);
  }
  taken_.begin(memory);
  begun_ = {.at = RunClock::now(),
            .memory = memory,
            .executor = counters_.totals(),
            .late_backwards = late_backwards_.count()};
  return start;
}

bool Session::releaseLog(const std::shared_ptr<EventLog>& log) {
  const Held held = mutex_.hold();
  if (!turn_.release(log)) return false;
  trained_.observer().passTo(nullptr);
  return true;
}

std::shared_ptr<const Plan> Session::planFor(std::uint64_t first_op_signature, bool trains) {
  const Held held = mutex_.hold();
  if (trains) budget_.verdict().letGoOn(held, first_op_signature, begun_.memory.allocated_bytes);
  if (keepsEverything()) return nullptr;
  std::shared_ptr<const Plan> plan = programs_.planFor(first_op_signature, steps_ + 1);
  outage_.allowOverrunFor(held, plan.get());
  return plan;
}

bool Session::wantsTrace(const StepSummary& summary) const {
  const Held held = mutex_.hold();
  if (to_record_.any() || summary.off_plan || summary.plan == nullptr) return true;
  const auto known = programs_.find(summary.plan->signature);
  if (known == programs_.end() || planning_.isBusy(held) || plans_.polishes(held)) return false;
  return known->second.replan || known->second.unpolished || known->second.from_first_step;
}

void Session::noteBackwardBegins() noexcept {
  const std::int64_t live = memory().statistics().allocated_bytes;
  if (trained_.placement()) trained_.placement()->beginBackward();
  const Held held = mutex_.hold();
  begun_.activation_bytes = live - begun_.memory.allocated_bytes;
}

bool Session::measuredAll() const {
  const auto& end = config_->end_after;
  if (!end) return false;
  const Held held = mutex_.hold();
  return steps_ >= end->steps;
}

struct Session::EndedStep {  // with its backward pass, recorded
  std::int64_t number = 0;
  int budget_number = 0;
  bool first = false, alone = false, decides = false;
  std::optional<BaseGrowth::Found> growth = std::nullopt;  // to be said
};

void Session::endStep(StepSummary summary) {
  if (forked_ && summary.had_backward) std::call_once(shown_, [this] { showChild(); });
  finishStep(std::move(summary));
  stopOnceAdvised();
}

void Session::finishStep(StepSummary summary) {
  const allocator::Statistics memory = this->memory().statistics();
  std::optional<EndedStep> ended;
  {
    const Held held = mutex_.hold();
    ended = noteEnd(held, summary, memory);
  }
  if (!ended) return;
  summary.trace.host = hostCopies();
  const auto trace = std::make_shared<const scheduler::Trace>(std::move(summary.trace));
  if (!config_->trace_dir.empty()) files_.writeTrace(*trace, ended->number);
  BudgetVerdict& verdict = budget_.verdict();
  // The error that ended a step has told it; where the program goes on, the next step's line does.
  if (const auto& growth = ended->growth;
      growth && growth->isGrowth() && !verdict.allocationFailed()) {
    verdict.grown().say(*growth, *trace);
  } else if (growth) {
    const Held held = mutex_.hold();
    verdict.grown().keepDue(held, growth->isGrowth());
  }
  // First: no plan is made for a budget that is too small.
  if (ended->decides || !budget())
    analyse(*trace, ended->first, ended->alone, ended->budget_number);
  plans_.ask({trace, ended->first, ended->alone});
}

std::optional<Session::EndedStep> Session::noteEnd(const Held& held, StepSummary& summary,
                                                   const allocator::Statistics& memory) {
  figures_.notePeaks(memory);
  BudgetVerdict& verdict = budget_.verdict();
  const bool tells = budget_.openSteps(held).tells(summary.opened);
  budget_.endStep(held, summary.opened);
  if (auto& placement = trained_.placement(); placement && summary.observed) {
    placement->endStep(summary.had_backward && summary.trusted && !summary.off_plan);
    if (placement->hasWork()) planning_.wake();
  }
  if (!summary.had_backward) return std::nullopt;
  trained_.noteSlackAtPeak(memory.slack_at_peak_bytes);
  if (!trained_.isElsewhere()) figures_.noteUncounted(summary.uncounted_bytes);
  const double elapsed = std::chrono::duration<double>(RunClock::now() - begun_.at).count();
  ++steps_;
  run_trace_.endStep(steps_);
  snapshots_.endStep(steps_);
  programs_.noteActive(summary.plan, steps_);
  figures_.addStep(elapsed);
  // One that another step kept from being recorded is still to be recorded.
  if (summary.recorded || !turn_.isTaken()) {
    to_record_.noteStep();
  } else if (tells) {
    const bool over = memory.budget_violations > begun_.memory.budget_violations;
    verdict.noteUnrecorded(held, over, memory.budget_violations);
  }
  // Steps of several threads may use those up unrecorded.
  if (budget() && budget_.ofRank(held).isResumed() && !verdict.decided(held)) to_record_.atLeast(1);
  if (steps_ == 1) first_step_peak_bytes_ = memory.mapped_peak_bytes;
  judgeStep(held, summary, memory);
  outage_.endStep(held, {summary, begun_.memory, memory, planning_.isBusy(held)});
  verdict.exportSmallest(held);
  metrics_.noteStep(held, {.memory = memory,
                           .figures = figures_,
                           .plan = programs_.active().plan(),
                           .seconds = elapsed});
  noteTaken(held, memory, elapsed, programs_.noteStep(summary));
  budget_.learn(held, summary);
  metrics_.learnStages(held, summary);
  budget_.check().noteStep(summary, steps_);
  if (!summary.recorded) return std::nullopt;
  figures_.noteTimeline(summary.trace);
  const bool part = late_backwards_.count() > begun_.late_backwards;
  EndedStep ended{.number = steps_,
                  .budget_number = budget_.number(held),
                  .first = steps_ == 1,
                  .alone = summary.alone,
                  .decides = tells && verdict.takesStep(held, steps_, part)};
  ended.growth = verdict.grown().takeDue(held);
  programs_.noteRecorded(summary.trace);
  return ended;
}

// -----------------------------------------------------------------------------------------------
// what ends for good

void Session::noteBackwardInChild() noexcept try {
  static std::atomic<bool> said{false};
  if (!inChild() || current() == nullptr || said.exchange(true)) return;
  current()->warn(
      "this process was forked after its parent had begun to train: nothing bounds its memory, and "
      "it writes no report. Fork before the first training step, or start it by spawn");
} catch (...) {
  return;
}

void Session::keepEverything(const std::string& why) {
  if (keeps_everything_.exchange(true)) return;
  warn("nothing is dropped or spilled from now on, as in PyTorch alone: " + why);
}

void Session::disable(const std::string& why) {
  if (disabled_.exchange(true)) return;
  trained_.goOver();  // nothing is given up any more
  warn("switched to pass-through, training goes on as PyTorch runs it: " + why);
}

std::string Session::raiseStop() {
  const Held held = mutex_.hold();
  AdvisedStop& stop = budget_.verdict().refusal().stop(held);
  stop.noteRaised();
  return stop.message();
}

void Session::sayExceededUntrained(std::int64_t budget_bytes, std::int64_t peak_bytes) const {
  if (awake_) return;
  warn(
      fmt::format("the budget of {} was exceeded, {} at most, and no training step was seen: "
                  "nothing was dropped or spilled (only what autograd saves of operations "
                  "outside torch.func can be)",
                  formatBytes(budget_bytes), formatBytes(peak_bytes)));
}

void Session::shutdown() {
  {
    const Held held = mutex_.hold();
    if (std::exchange(closing_, true)) return;
    ends_ = true;
    planning_.end(held);
    run_trace_.endEarly();
    snapshots_.endEarly();
  }
  planning_.join();
  // It has trained nothing, and its parent's is not its own.
  if (forked_ && (!awake_ || !shows_)) return;
  if (awake_ && !discovery_.settled(mutex_.hold())) settleAtEnd();
  job_.end();
  const allocator::Statistics memory = this->memory().statistics();
  if (awake_) {
    const Held held = mutex_.hold();
    figures_.notePeaks(memory);
    budget_.verdict().noteViolations(held, memory.budget_violations);
    metrics_.noteViolations(memory.budget_violations);
  }
  if (memory.budget_violations > 0)
    sayExceededUntrained(budget().value_or(0), memory.mapped_peak_bytes);
  if (awake_ && !config_->report_path.empty()) writeReport();
  if (awake_) metrics_.writeFile(ends_);
  if (awake_) sayAtEnd();
  control_->close();
  run_trace_.finish();
  snapshots_.finish();
}

}  // namespace ebbtide::plugin
