// Session: one a process. Owns the parts of a run, each of which owns what it knows: its budget,
// its programs, its job, its series, its files. Torch-free.
//
// Thread rule: training threads call beginStep/endStep and the counters; the planning thread
// publishes plans; the server's thread takes views and asks.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "config/current_config.hpp"
#include "ebbtide/allocator/device_memory.hpp"
#include "ebbtide/metrics/routes.hpp"
#include "memory/trained_memory.hpp"
#include "observe/executor_counters.hpp"
#include "observe/memory_snapshots.hpp"
#include "observe/run_trace.hpp"
#include "out_of_memory/live_shares.hpp"
#include "out_of_memory/out_of_memory.hpp"
#include "plan/plan.hpp"
#include "runtime/budget_controller.hpp"
#include "runtime/budget_outlook.hpp"
#include "runtime/eviction_costs.hpp"
#include "runtime/host_outage.hpp"
#include "runtime/job_client.hpp"
#include "runtime/late_backwards.hpp"
#include "runtime/metrics_export.hpp"
#include "runtime/observed_turn.hpp"
#include "runtime/planning_service.hpp"
#include "runtime/program_table.hpp"
#include "runtime/rank_discovery.hpp"
#include "runtime/rank_identity.hpp"
#include "runtime/run_control.hpp"
#include "runtime/run_figures.hpp"
#include "runtime/run_files.hpp"
#include "runtime/run_summary.hpp"
#include "runtime/run_view.hpp"
#include "runtime/step_begin.hpp"
#include "runtime/step_planning.hpp"
#include "runtime/step_start.hpp"
#include "runtime/step_summary.hpp"
#include "runtime/steps_to_record.hpp"
#include "runtime/taken_steps.hpp"
#include "verify/replay_trust.hpp"

namespace ebbtide::plugin {

class Session : JobClient::Process {
 public:
  using Held = SessionGuard::Held;

  // `make_control`: once, before it returns. `searches`: for plans in place of the planner that the
  // configuration names, and outlives this; nullptr: that one does.
  Session(Config config, std::string torch_version, const RunControl::Make& make_control,
          const scheduler::Planner* searches = nullptr);
  ~Session() override;
  static Session* current() noexcept;  // nullptr before start()
  static void start(Config config, std::string torch_version, const RunControl::Make& make_control);
  // Forked after its parent's training began: be inert. A child of a parent that had not is like
  // any process that has not begun to train.
  static bool inChild() noexcept;
  static void noteBackwardInChild() noexcept;  // of those: says once that it is not managed
  bool isForked() const noexcept { return forked_; }

  // Of the rank that it is taken to be by now; what is returned stays valid, and as it was.
  const Config& config() const noexcept { return *config_; }
  const std::string& torchVersion() const noexcept { return torch_version_; }
  // What it answers, from wake() on; any thread. Control adds to them, before.
  const metrics::Routes& routes() const noexcept { return routes_; }
  metrics::Routes& routes() noexcept { return routes_; }
  // Before wake(): the memory that the budget bounds, and where its values go, where that is not
  // the CPU's and the spill file. Both must outlive the session.
  // `set_budget` takes another budget as it was written, "" for none; nullptr: the memory's own
  // way.
  // `most_bytes`: that the device has; `facts`: of its memory; nullptr: not known.
  using SetBudget = TrainedMemory::SetBudget;
  void trainOn(allocator::DeviceMemory& memory, SpillTarget& spills, SetBudget set_budget,
               TrainedMemory::MostBytes most_bytes = nullptr, TrainedMemory::Facts facts = nullptr);
  // In force; nothing: none.
  std::optional<std::int64_t> budget() const noexcept { return trained_.budgetBytes(); }
  BudgetController& budgets() noexcept { return budget_; }
  const TrainedMemory& trained() const noexcept { return trained_; }
  // The key-value store of the process group whose messages this process's steps send, or nullptr.
  // Called on the planning thread, once for each group.
  void offerJobStore(RankJob::OpenStore open) { job_.offerStore(std::move(open)); }
  void offerDefaultGroup(DefaultGroupOffer group) { discovery_.offerGroup(std::move(group)); }
  allocator::DeviceMemory& memory() noexcept { return trained_.memory(); }
  allocator::DeviceMemory& hostMemory() noexcept { return trained_.host(); }
  SpillTarget& spills() noexcept { return trained_.spills(); }
  scheduler::HostCopies hostCopies() { return trained_.hostCopies(); }
  // What it trains on is this GPU; nothing: the host's processors.
  void noteGpu(GpuIdentity gpu) { metrics_.noteGpu(mutex_.hold(), std::move(gpu)); }

  // Memory has been short in this process: steps without a plan keep recipes from now on.
  void notePressure() noexcept { pressed_ = true; }
  bool pressed() const noexcept { return pressed_ && !only_spills_ && !keepsEverything(); }
  EvictionCosts& evictionCosts() noexcept { return eviction_costs_; }
  std::int64_t transientBytes() const noexcept {  // that replays without a plan may take
    return eviction_costs_.transientBytes(budget().value_or(0),
                                          budget_.verdict().told().neededBytes());
  }
  // The program frees what replays have to read (sharded parameters, say): no more of these.
  void spillOnly(const std::string& why) {
    if (!only_spills_.exchange(true))
      debug("without a plan values are spilled, not computed again, from now on: " + why);
  }

  // From now on nothing is dropped, spilled or recorded, as PyTorch alone: said once. What has been
  // dropped comes back as before.
  void keepEverything(const std::string& why);
  bool keepsEverything() const noexcept { return keeps_everything_ || budget_.paused(); }

  // Banner and server, at the first training op: launchers and data loaders that only import torch
  // stay silent.
  void wake(int threads);  // of one op, now

  // `trains`: false: the thread's steps have run nothing backward so far. It takes no turn from
  // another one, and is no word on the budget.
  StepStart beginStep(bool trains = true);
  // The plan of a program that begins so, or nullptr: of several the one that was expected here,
  // else the one that most steps ran.
  std::shared_ptr<const Plan> planFor(std::uint64_t first_op_signature, bool trains = true);
  // The step that observes the allocator follows another plan than it began with.
  void noteStepPlan(const std::shared_ptr<const Plan>& plan) {
    if (trained_.placement()) trained_.placement()->changePlan(plan);
  }
  bool wantsTrace(const StepSummary& summary) const;
  // The step that observed the allocator by it is over. False: another step took its place before.
  bool releaseLog(const std::shared_ptr<EventLog>& log);
  void endStep(StepSummary summary);
  bool measuredAll() const;  // the steps that `ebbtide fit` asked for: the process is to end

  MetricsExport& exported() noexcept { return metrics_; }
  ExecutorCounters& counters() noexcept { return counters_; }
  RunTrace& runTrace() noexcept { return run_trace_; }
  MemorySnapshots& snapshots() noexcept { return snapshots_; }
  LateBackwards& lateBackwards() noexcept { return late_backwards_; }
  ReplayTrust& replayTrust() noexcept { return replay_trust_; }

  // The last write to the host failed, a moment ago.
  bool hostRefuses() const noexcept { return trained_.hostRefuses(); }
  // A GPU that is measured alone is left as PyTorch has it. Any thread.
  bool mayGiveUp() const noexcept {
    return !trained_.isElsewhere() || budget() || !config_->written.budget.empty();
  }
  // The disk is full, say: plans do without from now on. Said once. Any thread, the reclaimer too.
  void noteSpillFailed() noexcept {
    if (!inChild()) outage_.begin();
  }
  // An out-of-memory error leaves for the program, which asked for so much. Any thread.
  void noteFailedAllocation(std::size_t bytes) noexcept {
    budget_.verdict().noteFailedAllocation(bytes);
  }
  void noteBackwardBegins() noexcept;            // first unpack of a step
  void rehearsed(const Plan& plan, bool whole);  // a step on it is over; were all compared?
  void rehearsalFailed(const Plan& plan, const std::string& why);  // by no op's fault
  // What a rehearsal takes is to fail where it would go over the budget.
  bool rehearsesWithinBudget() const;
  void disable(const std::string& why);  // pass-through from now on, said once
  // One line on stderr each, tagged with the rank.
  void warn(const std::string& text) const;
  void debug(const std::string& text) const;
  bool disabled() const noexcept { return disabled_; }
  const std::atomic<bool>& ends() const noexcept { return ends_; }  // nobody waits for plans then

  // Not empty: the next allocation of a training thread must fail with this text.
  bool stopRequested() const noexcept { return budget_.verdict().refusal().requested(); }
  std::string raiseStop();  // the message; the program is about to get it as an error
  // `by`: the op that asks; empty: none is known.
  std::string outOfMemoryMessage(std::size_t request_bytes, const std::string& by,
                                 const LiveShares& live) const;
  // Is this the log of the step that observes the allocator? False too where that is not to be
  // known without waiting.
  bool observesBy(const EventLog* log) const;
  // So many bytes of ended steps, most of them made by `op`, are on the host, and nothing reads
  // them: said once.
  void warnOfUnreadSpills(std::int64_t bytes, const std::string& op) {
    outage_.warnOfUnread(bytes, op);
  }
  bool saidUnreadSpills() const noexcept { return outage_.saidUnread(); }

  // --- those who look on, and ask for something (session_view.cpp)
  SessionGuard& guard() const noexcept { return mutex_; }
  RunView view(const Held& held) const;
  // There is work for the planning thread, which RunControl knows of. Without the guard.
  void wakePlanning() { planning_.wake(); }
  StepPlanning& plans() noexcept { return plans_; }
  // All programs, as if they were new; and the budget is judged again.
  void planAllAnew(const Held& held);

  void writeReport() { files_.writeReport(reportText()); }
  // At exit, of the memory that a budget was to bound: nothing where a step was seen.
  void sayExceededUntrained(std::int64_t budget_bytes, std::int64_t peak_bytes) const;
  void shutdown();  // at exit: joins the planner, writes the report, stops the server

 private:
  // Which rank it is (session_place.cpp).
  void readPlace();  // before the first step
  std::chrono::steady_clock::time_point nextPlaceLook(const Held& held) const;
  void showChild();
  void settleAtEnd();
  void lockForFork();
  void unlockAfterFork();
  bool foundStages(const std::vector<std::int32_t>& stages) override;
  std::string reportText() const;
  void rewriteReport();  // of the planning thread
  void takeBudget(const Held& held);
  void planLoop();
  bool hasStepToPlace() const { return trained_.placement() && trained_.placement()->hasWork(); }
  void placeStep();
  // The job's plan (session_job.cpp), by the planning thread.
  JobClient::Here here() const;
  void pollJob();
  void seeStages(const std::vector<std::int32_t>& stages) override;
  void fallShort(const JobFindings::Rank& of) override;
  void endRound(const std::string& why) override;
  void adopt(const RankJob::Decision& decision) override;
  void stopOnceAdvised();
  // What a run took (session_summary.cpp).
  RunSummary summary(const Held& held) const;
  void sayAtEnd();
  void analyse(const scheduler::Trace& trace, bool first_step, bool alone, int budget_number);
  void finishStep(StepSummary summary);
  struct EndedStep;  // nothing: there is nothing to be learnt from it
  std::optional<EndedStep> noteEnd(const Held& held, StepSummary& summary,
                                   const allocator::Statistics& memory);
  // What is made of a step that is over (session_judgement.cpp).
  void judgeStep(const Held& held, const StepSummary& summary, const allocator::Statistics& memory);
  // Of this program; 0: not known which.
  void noteTaken(const Held& held, const allocator::Statistics& memory, double seconds,
                 std::uint64_t program);
  // What a step takes, as whoever asks is told: the medians of the plan in force.
  std::optional<RecentSteps::Medians> stepTime(const Held& held) const;
  void debugStep(const Held& held, const StepSummary& summary, const allocator::Statistics& memory,
                 const ExecutorCounters::Totals& done) const;
  void recordSpilling(const Held& held, const Program* known);
  void planAnew(const Held& held, Program& known);  // so many times
  void planWithoutRejected();
  void say(const std::string& text) const;

  CurrentConfig config_;
  const std::string torch_version_;
  TrainedMemory trained_;
  RunTrace run_trace_{config_, trained_, [this](const std::string& text) { warn(text); }};
  MemorySnapshots snapshots_{config_, trained_, [this](const std::string& text) { warn(text); }};
  MetricsExport metrics_;
  metrics::Routes routes_;
  const std::unique_ptr<RunControl> control_;
  std::once_flag woken_, shown_;
  std::atomic<bool> wakes_{false}, awake_{false};
  bool forked_ = false;
  std::atomic<bool> shows_{true};  // with a line, a port, a report; a forked child: once it trains
  std::atomic<bool> disabled_{false}, keeps_everything_{false};
  std::atomic<bool> pressed_{false}, only_spills_{false};
  RunFiles files_{config_, [this](const std::string& text) { warn(text); }};
  LateBackwards late_backwards_;
  ExecutorCounters counters_{metrics_.series()};
  EvictionCosts eviction_costs_;
  ReplayTrust replay_trust_{metrics_.series(),
                            {.plan_without_rejected = [this] { planWithoutRejected(); },
                             .warn = [this](const std::string& text) { warn(text); },
                             .debug = [this](const std::string& text) { debug(text); }}};

  PlanningService planning_;

  mutable SessionGuard mutex_;  // guards all below, but for what says how itself
  int threads_ = 1;             // of one op, since wake()
  bool closing_ = false;
  std::atomic<bool> ends_{false};  // the same, for what does not take the lock
  JobClient job_;
  RankIdentity identity_;
  RankDiscovery discovery_;
  HostOutage outage_{budget_};
  BudgetController budget_;
  BudgetOutlook outlook_;
  StepPlanning plans_;
  ProgramTable programs_;
  StepsToRecord to_record_;
  ObservedTurn turn_;

  // figures of the run
  std::int64_t steps_ = 0;
  TakenSteps taken_;
  StepBegin begun_;  // of the step that began last
  RunFigures figures_;
  std::int64_t base_bytes_ = 0;
  std::int64_t first_step_peak_bytes_ = 0;
};

}  // namespace ebbtide::plugin
