#include "runtime/session.hpp"

#include <fmt/format.h>
#include <pthread.h>
#include <unistd.h>

#include <cstdlib>
#include <utility>

#include "runtime/exit_signal.hpp"
#include "runtime/last_line.hpp"
#include "runtime/out_of_memory_text.hpp"
#include "runtime/report_text.hpp"

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
      job_outcome_({.guard = mutex_,
                    .budget = budget_,
                    .metrics = metrics_,
                    .planning = planning_,
                    .plans = plans_}),
      job_(
          config_, mutex_, job_outcome_, ends_,
          [this](const std::string& text) { lines_.say(text); },
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
                 .say = [this](const std::string& text) { lines_.say(text); },
                 .warn = [this](const std::string& text) { warn(text); }}),
      discovery_(config_, mutex_, identity_, ends_,
                 [this](const std::string& text) { warn(text); }),
      budget_({.guard = mutex_,
               .config = config_,
               .trained = trained_,
               .metrics = metrics_,
               .counters = counters_,
               .keeps_everything = drops_.keepsForGood(),
               .outage = outage_.state(),
               .steps = steps_.ended,
               .to_record = steps_.to_record,
               .taken = steps_.taken,
               .figures = steps_.figures,
               .programs = steps_.programs,
               .may_be_advised = [this](const Held& held) { return job_.hasStore(held); },
               .say = [this](const std::string& text) { lines_.say(text); },
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
              .debug = [this](const std::string& text) { debug(text); }}),
      rehearsals_({.steps = steps_,
                   .trust = replay_trust_,
                   .planning = planning_,
                   .budget = budget_,
                   .outage = outage_,
                   .warn = [this](const std::string& text) { warn(text); }}),
      course_({.steps = steps_,
               .trained = trained_,
               .budget = budget_,
               .drops = drops_,
               .outage = outage_,
               .planning = planning_,
               .plans = plans_,
               .control = *control_,
               .metrics = metrics_,
               .counters = counters_,
               .trace = run_trace_,
               .snapshots = snapshots_,
               .late_backwards = late_backwards_,
               .files = files_,
               .lines = lines_}),
      loop_({.service = planning_,
             .plans = plans_,
             .budget = budget_,
             .steps = steps_,
             .trained = trained_,
             .control = *control_,
             .job = job_,
             .discovery = discovery_,
             .metrics = metrics_,
             .files = files_,
             .shows = shows_,
             .ends = ends_,
             .report = [this] { return reportText(); },
             .lines = lines_}) {}

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
    planning_.begin([this] { loop_.run(here()); });
    awake_ = true;
    if (current() == this) ExitSignal::install([] { current()->shutdown(); });
  });
}

JobClient::Here Session::here() const {
  const Held held = mutex_.hold();
  return {.torch_version = torch_version_, .threads = threads_, .of_gpu = trained_.isElsewhere()};
}

// -----------------------------------------------------------------------------------------------
// steps

StepStart Session::beginStep(bool trains) {
  if (current() == this) ExitSignal::takeBack();
  if (discovery_.lookForGroup()) planning_.wake();
  return course_.begin(trains);
}

void Session::endStep(StepSummary summary) {
  if (forked_ && summary.had_backward) std::call_once(shown_, [this] { showChild(); });
  course_.end(std::move(summary));
  job_outcome_.stopOnceAdvised();
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

std::string Session::raiseStop() {
  const Held held = mutex_.hold();
  AdvisedStop& stop = budget_.verdict().refusal().stop(held);
  stop.noteRaised();
  return stop.message();
}

std::string Session::outOfMemoryMessage(std::size_t request_bytes, const std::string& by,
                                        const LiveShares& live) const {
  return outOfMemoryText(budget_, request_bytes, by, live);
}

std::string Session::reportText() const {
  const Held held = mutex_.hold();
  return plugin::reportText(held, {.budget = budget_,
                                   .steps = steps_,
                                   .trust = replay_trust_,
                                   .job = job_,
                                   .torch_version = torch_version_,
                                   .ended = ends_,
                                   .passes_through = drops_.disabled()});
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
    if (ends_.exchange(true)) return;
    planning_.end(held);
    run_trace_.endEarly();
    snapshots_.endEarly();
  }
  planning_.join();
  // It has trained nothing, and its parent's is not its own.
  if (forked_ && (!awake_ || !shows_)) return;
  if (awake_ && !discovery_.settled(mutex_.hold())) settleAtEnd();
  job_.end();
  const allocator::Statistics memory = trained_.memory().statistics();
  if (awake_) {
    const Held held = mutex_.hold();
    steps_.figures.notePeaks(memory);
    budget_.verdict().noteViolations(held, memory.budget_violations);
    metrics_.noteViolations(memory.budget_violations);
  }
  if (memory.budget_violations > 0)
    sayExceededUntrained(budget().value_or(0), memory.mapped_peak_bytes);
  if (awake_ && !config_->report_path.empty()) writeReport();
  if (awake_) metrics_.writeFile(ends_);
  if (awake_)
    sayLastLine({.budget = budget_,
                 .outlook = outlook_,
                 .plans = plans_,
                 .steps = steps_,
                 .lines = lines_});
  control_->close();
  run_trace_.finish();
  snapshots_.finish();
}

}  // namespace ebbtide::plugin
