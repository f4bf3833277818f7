// Session: one a process. Owns the parts of a run, each of which owns what it knows: its budget,
// its programs, its job, its series, its files, what follows from its steps and verification steps.
// Torch-free.
//
// Thread rule: training threads call beginStep/endStep and the counters; the planning thread
// publishes plans; the server's thread takes views and asks.
#pragma once

#include <atomic>
#include <memory>
#include <optional>
#include <string>

#include "config/current_config.hpp"
#include "ebbtide/allocator/device_memory.hpp"
#include "ebbtide/metrics/routes.hpp"
#include "memory/trained_memory.hpp"
#include "out_of_memory/live_shares.hpp"
#include "plan/plan.hpp"
#include "runtime/budget_controller.hpp"
#include "runtime/drops_allowed.hpp"
#include "runtime/host_outage.hpp"
#include "runtime/planning_loop.hpp"
#include "runtime/planning_service.hpp"
#include "runtime/rank_in_job.hpp"
#include "runtime/run_control.hpp"
#include "runtime/run_life.hpp"
#include "runtime/run_lines.hpp"
#include "runtime/run_outputs.hpp"
#include "runtime/run_view.hpp"
#include "runtime/step_course.hpp"
#include "runtime/step_planning.hpp"
#include "runtime/step_start.hpp"
#include "runtime/step_summary.hpp"
#include "runtime/steps_so_far.hpp"
#include "runtime/verifications.hpp"
#include "verify/replay_trust.hpp"

namespace ebbtide::plugin {

class Session {
 public:
  using Held = SessionGuard::Held;

  // `make_control`: once, before it returns. `searches`: for plans in place of the planner that the
  // configuration names, and outlives this; nullptr: that one does.
  Session(Config config, std::string torch_version, const RunControl::Make& make_control,
          const scheduler::Planner* searches = nullptr);
  ~Session();
  static Session* current() noexcept;  // nullptr before start()
  static void start(Config config, std::string torch_version, const RunControl::Make& make_control);
  static void noteBackwardInChild() noexcept;  // of an inert one: says once that it is not managed
  bool isForked() const noexcept { return life_.forked; }

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
  // The run's other parts.
  TrainedMemory& trained() noexcept { return trained_; }
  RunOutputs& outputs() noexcept { return outputs_; }
  DropsAllowed& drops() noexcept { return drops_; }
  HostOutage& outage() noexcept { return outage_; }
  Verifications& verifications() noexcept { return verifications_; }
  StepCourse& course() noexcept { return course_; }
  const RunLines& lines() const noexcept { return lines_; }
  // The key-value store of the process group whose messages this process's steps send, or nullptr.
  // Called on the planning thread, once for each group.
  void offerJobStore(RankJob::OpenStore open) { rank_.client().offerStore(std::move(open)); }
  void offerDefaultGroup(DefaultGroupOffer group) {
    rank_.discovery().offerGroup(std::move(group));
  }
  allocator::DeviceMemory& memory() noexcept { return trained_.memory(); }
  allocator::DeviceMemory& hostMemory() noexcept { return trained_.host(); }
  SpillTarget& spills() noexcept { return trained_.spills(); }
  scheduler::HostCopies hostCopies() { return trained_.hostCopies(); }
  // What it trains on is this GPU; nothing: the host's processors.
  void noteGpu(GpuIdentity gpu) { outputs_.metrics.noteGpu(mutex_.hold(), std::move(gpu)); }

  // --- what is dropped (DropsAllowed)
  void notePressure() noexcept { drops_.notePressure(); }
  bool pressed() const noexcept { return drops_.pressed(); }
  void spillOnly(const std::string& why) { drops_.spillOnly(why); }
  void keepEverything(const std::string& why) { drops_.keepEverything(why); }
  bool keepsEverything() const noexcept { return drops_.keepsEverything(); }
  void disable(const std::string& why) { drops_.disable(why); }
  bool disabled() const noexcept { return drops_.disabled(); }
  EvictionCosts& evictionCosts() noexcept { return drops_.costs(); }
  std::int64_t transientBytes() const noexcept { return drops_.transientBytes(); }

  // Banner and server, at the first training op: launchers and data loaders that only import torch
  // stay silent.
  void wake(int threads);  // of one op, now

  // --- steps (StepCourse)
  StepStart beginStep(bool trains = true);
  std::shared_ptr<const Plan> planFor(std::uint64_t first_op_signature, bool trains = true) {
    return course_.planFor(first_op_signature, trains);
  }
  void noteStepPlan(const std::shared_ptr<const Plan>& plan) { course_.noteStepPlan(plan); }
  void noteBackwardBegins() noexcept { course_.noteBackwardBegins(); }
  bool observesBy(const EventLog* log) const { return course_.observesBy(log); }
  bool releaseLog(const std::shared_ptr<EventLog>& log) { return course_.releaseLog(log); }
  bool wantsTrace(const StepSummary& summary) const { return course_.wantsTrace(summary); }
  void endStep(StepSummary summary);
  bool measuredAll() const { return course_.measuredAll(); }

  // --- verification steps (Verifications)
  void verified(const Plan& plan, bool whole) { verifications_.verified(plan, whole); }
  void verificationFailed(const Plan& plan, const std::string& why) {
    verifications_.failed(plan, why);
  }
  bool verifiesWithinBudget() const { return verifications_.keepsWithinBudget(); }

  MetricsExport& exported() noexcept { return outputs_.metrics; }
  ExecutorCounters& counters() noexcept { return outputs_.counters; }
  RunTrace& runTrace() noexcept { return outputs_.trace; }
  MemorySnapshots& snapshots() noexcept { return outputs_.snapshots; }
  LateBackwards& lateBackwards() noexcept { return course_.lateBackwards(); }
  ReplayTrust& replayTrust() noexcept { return replay_trust_; }

  // The last write to the host failed, a moment ago.
  bool hostRefuses() const noexcept { return trained_.hostRefuses(); }
  bool mayGiveUp() const noexcept { return drops_.mayGiveUp(); }
  void noteSpillFailed() noexcept { outage_.begin(); }
  // An out-of-memory error leaves for the program, which asked for so much. Any thread.
  void noteFailedAllocation(std::size_t bytes) noexcept {
    budget_.verdict().noteFailedAllocation(bytes);
  }
  // One line on stderr each, tagged with the rank.
  void warn(const std::string& text) const { lines_.warn(text); }
  void debug(const std::string& text) const { lines_.debug(text); }
  // Nobody waits for plans then.
  const std::atomic<bool>& ends() const noexcept { return life_.ends; }

  // Not empty: the next allocation of a training thread must fail with this text.
  bool stopRequested() const noexcept { return budget_.verdict().refusal().requested(); }
  std::string raiseStop();  // the message; the program is about to get it as an error
  // `by`: the op that asks; empty: none is known.
  std::string outOfMemoryMessage(std::size_t request_bytes, const std::string& by,
                                 const LiveShares& live) const;
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
  void planAllAnew(const Held& held) { plans_.planAllAnew(held); }

  void writeReport() { outputs_.files.writeReport(reportText()); }
  // At exit, of the memory that a budget was to bound: nothing where a step was seen.
  void sayExceededUntrained(std::int64_t budget_bytes, std::int64_t peak_bytes) const;
  void shutdown();  // at exit: joins the planner, writes the report, stops the server

 private:
  void lockForFork();
  void unlockAfterFork();
  std::string reportText() const;

  CurrentConfig config_;
  const std::string torch_version_;
  RunLife life_;
  const RunLines lines_{config_, life_.ends};
  TrainedMemory trained_;
  RunOutputs outputs_{config_, trained_, torch_version_, lines_};
  metrics::Routes routes_;
  const std::unique_ptr<RunControl> control_;
  ReplayTrust replay_trust_;
  PlanningService planning_;
  mutable SessionGuard mutex_;
  StepsSoFar steps_;
  DropsAllowed drops_{trained_, budget_, lines_.warner(), lines_.debugger()};
  RankInJob rank_;
  HostOutage outage_{budget_};
  BudgetController budget_;
  StepPlanning plans_;
  Verifications verifications_;
  StepCourse course_;
  PlanningLoop loop_;
};

}  // namespace ebbtide::plugin
