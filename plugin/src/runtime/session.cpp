#include "runtime/session.hpp"

#include <fmt/format.h>
#include <pthread.h>
#include <unistd.h>

#include <cstdlib>
#include <utility>

#include "runtime/budget/shown_plan.hpp"
#include "runtime/last_line.hpp"
#include "runtime/report_text.hpp"
#include "runtime/run/early_end.hpp"
#include "runtime/run/exit_signal.hpp"

namespace ebbtide::plugin {
namespace {

std::atomic<Session*> the_session{nullptr};

// `searches` takes the place of the planner that the configuration names; nullptr: nothing does.
PlanSearch::Options searchOptions(const Config& config, const scheduler::Planner* searches) {
  return {.planner = config.planning.planner,
          .replay_ahead = config.planning.replay_ahead,
          .planning_time = config.planning.time,
          .work = config.planning.work,
          .in_its_place = searches};
}

struct AtEnd {
  explicit AtEnd(std::atomic<bool>& of) : over(of) {}
  ~AtEnd() { over = true; }

  std::atomic<bool>& over;
};

}  // namespace

Session* Session::current() noexcept {
  return the_session.load(std::memory_order_acquire);
}

Session::Session(Config config, std::string torch_version, const RunControl::Make& make_control,
                 const scheduler::Planner* searches)
    : config_(std::move(config)),
      torch_version_(std::move(torch_version)),
      trained_(config_),
      control_(make_control(*this)),
      replay_trust_(outputs_.metrics.series(),
                    {.plan_without_rejected = [this] { verifications_.planWithoutRejected(); },
                     .warn = lines_.warner(),
                     .debug = lines_.debugger()}),
      planning_(searchOptions(*config_, searches), lines_.debugger()),
      rank_({.guard = mutex_,
             .config = config_,
             .trained = trained_,
             .metrics = outputs_.metrics,
             .budget = budget_,
             .control = *control_,
             .planning = planning_,
             .plans = plans_,
             .life = life_,
             .lines = lines_,
             .torch_version = torch_version_}),
      budget_(judgedRun()),
      plans_({.service = planning_,
              .budget = budget_,
              .outage = outage_,
              .job = rank_.client(),
              .trust = replay_trust_,
              .counters = outputs_.counters,
              .ends = life_.ends,
              .debug = lines_.debugger()}),
      verifications_({.steps = steps_,
                      .trust = replay_trust_,
                      .planning = planning_,
                      .budget = budget_,
                      .outage = outage_,
                      .warn = lines_.warner()}),
      course_({.steps = steps_,
               .trained = trained_,
               .budget = budget_,
               .drops = drops_,
               .outage = outage_,
               .planning = planning_,
               .plans = plans_,
               .control = *control_,
               .outputs = outputs_,
               .lines = lines_}),
      loop_({.service = planning_,
             .plans = plans_,
             .budget = budget_,
             .steps = steps_,
             .trained = trained_,
             .control = *control_,
             .rank = rank_,
             .outputs = outputs_,
             .life = life_,
             .report = [this] { return interimReport(); },
             .lines = lines_}) {}

Session::~Session() = default;

JudgedRun Session::judgedRun() {
  return {.guard = mutex_,
          .config = config_,
          .trained = trained_,
          .metrics = outputs_.metrics,
          .counters = outputs_.counters,
          .keeps_everything = drops_.keepsForGood(),
          .outage = outage_.state(),
          .steps = steps_.ended,
          .to_record = steps_.to_record,
          .taken = steps_.taken,
          .figures = steps_.figures,
          .programs = steps_.programs,
          .may_be_advised = [this](const Held& held) { return rank_.client().hasStore(held); },
          .say = lines_.teller(),
          .warn = lines_.warner()};
}

// Leaked on purpose: tensors freed during static destruction still reach the allocator.
void Session::start(Config config, std::string torch_version,
                    const RunControl::Make& make_control) {
  auto* session = new Session(std::move(config), std::move(torch_version), make_control);
  the_session.store(session, std::memory_order_release);
  session->lines_.beCurrent();
  pthread_atfork([] { current()->lockForFork(); }, [] { current()->unlockAfterFork(); },
                 [] {
                   current()->life_.noteForked();
                   current()->unlockAfterFork();
                   current()->outputs_.trace.beInert();
                   current()->trained_.beInert();
                 });
  std::atexit([] {
    if (!RunLife::inChild()) current()->shutdown();
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

void Session::trainOn(allocator::DeviceMemory& memory, SpillTarget& spills,
                      TrainedMemory::SetBudget set_budget, TrainedMemory::MostBytes most_bytes,
                      TrainedMemory::Facts facts) {
  const Held held = mutex_.hold();  // another thread may fork now
  if (!trained_.moveTo(memory, spills, std::move(set_budget), std::move(most_bytes),
                       std::move(facts)))
    return;
  trained_.measureOnly(budget_.measuresOnly(held));
  outputs_.metrics.noteBudget(trained_.budgetBytes());
}

void Session::wake(int threads) {
  if (life_.awake) return;
  life_.wakes = true;
  std::call_once(life_.woken, [this, threads] {
    life_.threads = threads;
    if (life_.forked) trained_.beActive();
    rank_.readPlace();
    budget_.verdict().noteStart(/*own=*/!life_.forked);
    outputs_.metrics.noteStart();
    outputs_.trace.recordUntilExit();
    // RankIdentity checks a share of memory once the ranks are known. A forked child may be a
    // loader's worker.
    if (!life_.forked && !config_->budgetNeedsPlace()) budget_.checkMemory();
    if (config_->end_after) EarlyEnd::noteTraining(config_->end_after->folder);
    life_.shows = !life_.forked;  // a data loader's worker that runs forward passes is no rank
    if (life_.shows) rank_.discovery().show();
    planning_.begin([this] { loop_.run(); });
    life_.awake = true;
    if (current() == this) ExitSignal::install([] { current()->shutdown(); });
  });
}

// -----------------------------------------------------------------------------------------------
// steps

StepStart Session::beginStep(bool trains) {
  if (current() == this) ExitSignal::takeBack();
  if (rank_.discovery().lookForGroup()) planning_.wake();
  return course_.begin(trains);
}

void Session::endStep(StepSummary summary) {
  if (summary.had_backward) rank_.noteTrains();
  course_.end(std::move(summary));
  rank_.outcome().stopOnceAdvised();
}

// -----------------------------------------------------------------------------------------------
// what ends for good

void Session::noteBackwardInChild() noexcept try {
  static std::atomic<bool> said{false};
  if (!RunLife::inChild() || current() == nullptr || said.exchange(true)) return;
  current()->lines_.warn(
      "this process was forked after its parent had begun to train: nothing bounds its memory, and "
      "it writes no report. Fork before the first training step, or start it by spawn");
} catch (...) {
  return;
}

std::string Session::interimReport() {
  {
    const Held held = mutex_.hold();
    if (steps_.ended == 0) steps_.figures.notePeaks(trained_.memory().statistics());
  }
  return reportText();
}

std::string Session::reportText() const {
  const Held held = mutex_.hold();
  return plugin::reportText(held, {.budget = budget_,
                                   .steps = steps_,
                                   .trust = replay_trust_,
                                   .job = rank_.client(),
                                   .torch_version = torch_version_,
                                   .ended = life_.ends,
                                   .passes_through = drops_.disabled()});
}

void Session::sayExceededUntrained(std::int64_t budget_bytes, std::int64_t peak_bytes) const {
  if (life_.awake) return;
  lines_.warn(
      fmt::format("the budget of {} was exceeded, {} at most, and no training step was seen: "
                  "nothing was dropped or spilled (only what autograd saves of operations "
                  "outside torch.func can be)",
                  formatBytes(budget_bytes), formatBytes(peak_bytes)));
}

void Session::shutdown() {
  bool first = false;
  {
    const Held held = mutex_.hold();
    first = !life_.ends.exchange(true);
    if (first) {
      planning_.end(held);
      outputs_.trace.endEarly();
      outputs_.snapshots.endEarly();
    }
  }
  if (!first) return life_.waitUntilOver();
  const AtEnd over(life_.over);
  planning_.join();
  // It has trained nothing, and its parent's is not its own.
  if (life_.forked && (!life_.awake || !life_.shows)) return;
  if (life_.awake && !rank_.discovery().settled(mutex_.hold())) rank_.settleAtEnd();
  rank_.client().end();
  const allocator::Statistics memory = trained_.memory().statistics();
  if (life_.awake) {
    const Held held = mutex_.hold();
    steps_.figures.notePeaks(memory);
    budget_.verdict().noteViolations(held, memory.budget_violations);
    outputs_.metrics.noteViolations(memory.budget_violations);
    course_.settleAtEnd(held);
    outputs_.metrics.noteShown(held, shownPlan(held, budget_).plan);
  }
  if (memory.budget_violations > 0)
    sayExceededUntrained(trained_.budgetBytes().value_or(0), memory.mapped_peak_bytes);
  if (life_.awake && !config_->files.report.empty()) writeReport();
  if (life_.awake) outputs_.metrics.writeFile(life_.ends);
  if (life_.awake)
    sayLastLine({.budget = budget_, .plans = plans_, .steps = steps_, .lines = lines_});
  control_->close();
  outputs_.trace.finish();
  outputs_.snapshots.finish();
}

// -----------------------------------------------------------------------------------------------
// what it shows to those who look on

RunView Session::view(const Held& held) const {
  const Program* const current = steps_.programs.current();
  const bool all_held =
      budget_.openSteps(held).settled() &&
      trained_.memory().budgetTracker().overruns() == steps_.taken.violationsBefore();
  return {.process = {.awake = life_.awake,
                      .ended = life_.ends,
                      .passes_through = drops_.disabled(),
                      .keeps_everything = drops_.keepsForGood()},
          .rank = {.gpu = outputs_.metrics.gpu(held), .stages = outputs_.metrics.stages(held)},
          .budget = {.bytes = trained_.budgetBytes(),
                     .number = budget_.number(held),
                     .mode = budget_.modeName(held),
                     .is_paused = budget_.ofRank(held).isPaused(),
                     .held_steps = trained_.budgetBytes() && all_held
                                       ? steps_.ended - steps_.taken.stepsBefore()
                                       : 0},
          .steps = {.count = steps_.ended,
                    .is_open = steps_.taken.isOpen(),
                    .first_seconds = steps_.figures.firstSeconds(),
                    .recent = steps_.taken.recent(),
                    .time = steps_.stepTime(held),
                    .recorded = steps_.taken.recorded().all(),
                    .largest = steps_.taken.recorded().largest()},
          .memory = {.cached_bytes = steps_.taken.memory().cached_bytes,
                     .base_bytes = steps_.base_bytes,
                     .peak_allocated_bytes = steps_.figures.allocatedPeakBytes(),
                     .peak_mapped_bytes = steps_.figures.mappedPeakBytes(),
                     .predicted_peak_bytes =
                         current != nullptr ? current->in_force.predicted_peak_bytes : 0,
                     .timeline = steps_.figures.timeline()},
          .shown = shownPlan(held, budget_)};
}

}  // namespace ebbtide::plugin
