// Session: one a process. Owns the configuration, the memory, the plans, the metrics and the
// report. Torch-free.
//
// Thread rule: training threads call beginStep/endStep and the counters; the planning thread
// publishes plans; the server's thread reads metrics only.
#pragma once

#include <atomic>
#include <condition_variable>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "audit_cache.hpp"
#include "config.hpp"
#include "ebbtide/allocator/device_memory.hpp"
#include "ebbtide/metrics/http_server.hpp"
#include "ebbtide/metrics/rank_metrics.hpp"
#include "ebbtide/scheduler/activation_shares.hpp"
#include "ebbtide/scheduler/op_durations.hpp"
#include "ebbtide/scheduler/planner.hpp"
#include "ebbtide/scheduler/simulator.hpp"
#include "event_log.hpp"
#include "eviction_costs.hpp"
#include "job/rank_job.hpp"
#include "live_shares.hpp"
#include "plan.hpp"
#include "session_observer.hpp"
#include "spill_store.hpp"
#include "stage_budget.hpp"
#include "step_placement.hpp"

namespace ebbtide::plugin {

struct StepSummary {
  bool had_backward = false;
  bool recorded = false;  // `trace` is whole
  bool observed = false;  // the allocator, to its end
  bool off_plan = false;
  std::shared_ptr<const Plan> plan;  // that it began with, left or not; nullptr: none
  bool trusted = false;              // rehearsed before it began, here or in an earlier process
  bool compared_whole = false;       // all replays of its plan, by all bytes
  bool alone = true;                 // no other step was alive at its end
  bool waited = false;               // for its backward pass, while others began
  scheduler::Trace trace;
  std::vector<AuditKey> audit_keys;  // of the trace's ops
};

class Session {
 public:
  // The host's threads are told by wake().
  Session(Config config, AuditCache::Host host);
  static Session* current() noexcept;  // nullptr before start()
  static void start(Config config, AuditCache::Host host);
  static bool inChild() noexcept;  // a forked process: be inert

  const Config& config() const noexcept { return config_; }
  // Before wake(): the memory that the budget bounds, and where its values go, where that is not
  // the CPU's and the spill file. Both must outlive the session.
  // `set_budget` takes another budget as it was written, "" for none; nullptr: the memory's own
  // way.
  using SetBudget = std::function<void(const std::string& size)>;
  void trainOn(allocator::DeviceMemory& memory, SpillTarget& spills, SetBudget set_budget);
  // In force; nothing: none.
  std::optional<std::int64_t> budget() const noexcept;
  // The key-value store of the process group whose messages this process's steps send, or nullptr.
  // Called on the planning thread, once for each group.
  void offerJobStore(RankJob::OpenStore open);
  allocator::DeviceMemory& memory() noexcept { return *memory_; }
  allocator::DeviceMemory& hostMemory() noexcept { return *host_memory_; }
  SpillTarget& spills() noexcept { return *spills_; }
  scheduler::HostCopies hostCopies();  // 0 bytes a second: only where nothing else helps

  // Memory has been short in this process: steps without a plan keep recipes from now on.
  void notePressure() noexcept { pressed_ = true; }
  bool pressed() const noexcept { return pressed_ && !only_spills_ && !keeps_everything_; }
  EvictionCosts& evictionCosts() noexcept { return eviction_costs_; }
  std::int64_t transientBytes() const noexcept {  // that replays without a plan may take
    return eviction_costs_.transientBytes(budget().value_or(0), smallest_feasible_bytes_);
  }
  // The program frees what replays have to read (sharded parameters, say): no more of these.
  void spillOnly(const std::string& why) {
    if (!only_spills_.exchange(true))
      debug("without a plan values are spilled, not computed again, from now on: " + why);
  }

  // From now on nothing is dropped, spilled or recorded, as PyTorch alone: said once. What has been
  // dropped comes back as before.
  void keepEverything(const std::string& why);
  bool keepsEverything() const noexcept { return keeps_everything_; }

  // Banner and server, at the first training op: launchers and data loaders that only import torch
  // stay silent.
  void wake(int threads);  // of one op, now

  struct StepStart {
    std::shared_ptr<const Plan> plan;
    std::shared_ptr<EventLog> log;
    bool record_ops = true;
    bool hooks = true;
  };
  StepStart beginStep();
  // The plan of a program that begins so, or nullptr: of several the one that was expected here,
  // else the one that most steps ran.
  std::shared_ptr<const Plan> planFor(std::uint64_t first_op_signature);
  // The step that observes the allocator follows another plan than it began with.
  void noteStepPlan(const std::shared_ptr<const Plan>& plan) {
    if (placement_) placement_->changePlan(plan);
  }
  bool wantsTrace(const StepSummary& summary) const;
  // The step that observed the allocator by it is over. False: another step took its place before.
  bool releaseLog(const std::shared_ptr<EventLog>& log);
  void endStep(StepSummary summary);

  // Counters of the executor.
  void countReplay(std::int64_t duration_ns) noexcept;
  void countReplaysAhead(std::int64_t replays, std::int64_t duration_ns) noexcept;
  void countAudit(const std::string& op, std::uint64_t signature, bool equal);
  struct Replayed {
    std::string op;
    std::uint64_t signature = 0;
  };
  void rejectReplay(const std::string& op, std::uint64_t signature, const std::string& why);
  void rejectReplays(const std::vector<Replayed>& ops, const std::string& why);
  void countSpill(std::int64_t bytes) noexcept;
  // Values given up without a plan, to be computed again, and the replays that did.
  void countOnlineDrop(std::int64_t bytes) noexcept { dropped_online_bytes_ += bytes; }
  void countOnlineReplay() noexcept { ++replayed_online_ops_; }
  // Has a replay of such an op differed, in whatever step of this process?
  bool hasRejected(const std::string& op) const;
  void countCode(std::int64_t decoded_values, std::int64_t duration_ns) noexcept;
  // Of a plan: to the host and back.
  void countOffload(std::int64_t written_bytes, std::int64_t duration_ns) noexcept;
  void noteOffloadFailed();            // the disk is full, say: plans do without from now on
  void noteBackwardBegins() noexcept;  // first unpack of a step
  // Steps in which parameters are written while saved tensors are left (a GAN's generator waits for
  // its discriminator) go on, once such tensors were unpacked after their step had been ended.
  // Where the program says what a step is, none goes on: it waits beside the next ones.
  void noteLateBackward(bool ended_by_hint) noexcept {
    ++late_backwards_;
    (ended_by_hint ? backward_crosses_hints_ : goes_on_) = true;
  }
  bool backwardCrossesHints() const noexcept { return backward_crosses_hints_; }
  void forgetLateBackwards() noexcept { goes_on_ = false, never_goes_on_ = true; }
  bool goesOn() const noexcept { return goes_on_ && !never_goes_on_; }
  // A step on it is over; were all replays compared? Its ops' keys, where they were taken.
  void rehearsed(const Plan& plan, bool whole, const std::vector<AuditKey>& audit_keys);
  // For later processes alone.
  void noteRehearsal(const Plan& plan, bool whole, const std::vector<AuditKey>& audit_keys);
  void rehearsalFailed(const Plan& plan, const std::string& why);  // by no op's fault
  bool remembersAudits() const noexcept { return audits_ != nullptr; }
  void noteUnsteady(AuditKey op);  // two replays from the same inputs differed
  // In a trusted step a replay of it failed, or differed.
  void distrust(const Plan& plan) noexcept;
  void disable(const std::string& why);  // pass-through from now on, said once
  // One line on stderr each, tagged with the rank.
  void warn(const std::string& text) const;
  void debug(const std::string& text) const;
  bool disabled() const noexcept { return disabled_; }

  // Not empty: the next allocation of a training thread must fail with this text.
  bool stopRequested() const noexcept { return stop_; }
  std::string stopMessage() const;
  // `by`: the op that asks; empty: none is known.
  std::string outOfMemoryMessage(std::size_t request_bytes, const std::string& by,
                                 const LiveShares& live) const;
  // Is this the log of the step that observes the allocator? False too where that is not to be
  // known without waiting.
  bool observesBy(const EventLog* log) const;

  void writeReport();
  void writeTrace(const scheduler::Trace& trace) const;
  void shutdown();  // at exit: joins the planner, writes the report, stops the server

 private:
  static constexpr int kMaxReplans =
      4;  // for one program, because its steps differed from the plan
  // Steps that are recorded when one has spilled unrecorded, until it returns; twice as many each
  // time that it does not in these, so no more than twice the steps between two of them.
  static constexpr int kRecordUntilSeen = 100;
  static constexpr int kMostUntilSeen = kRecordUntilSeen << 20;

  struct Program {  // what is known of one program
    void askAgain() {
      if (replan || replans == kMaxReplans) return;
      ++replans;
      replan = true;
    }

    std::shared_ptr<Plan> plan;        // nullptr: nothing to drop, or nothing could be planned
    std::shared_ptr<Plan> later_plan;  // takes its place when step later_from begins
    std::int64_t later_from = 0;
    scheduler::OpDurations durations;
    std::uint64_t first_op_signature = 0;
    std::set<OpId> verified;           // ops whose replay equalled the original, at this place
    std::set<OpId> from_cache;         // that it did so in an earlier process
    std::vector<AuditKey> audit_keys;  // per op, of the last step that took them; 0: none did
    bool asked = false;                // a plan was asked for
    bool replan = false;               // and is to be asked for again
    bool from_first_step = false;
    bool said_plan = false;
    int replans = 0;
    int partial_rehearsals = 0;
    int slow_offloads = 0;  // steps in a row
    std::int64_t steps = 0;
    std::int64_t plain_peak_bytes = 0;  // nothing dropped
    std::int64_t activation_bytes = 0;
    scheduler::ActivationShares shares;
    std::int64_t predicted_peak_bytes = 0;
    std::int64_t steady_peak_bytes = 0;  // largest live bytes of a step under the checked plan
  };

  struct Planned {
    scheduler::TraceGraph step;  // with copies
    scheduler::PlanResult result;
    scheduler::Simulation simulated;

    bool betterThan(const Planned& other) const;
  };

  void lockForFork();
  void unlockAfterFork();
  void beInert();  // in a forked child
  bool trainsElsewhere() const noexcept { return memory_ != host_memory_.get(); }
  std::int64_t headroom() const;  // bytes of the budget that no plan uses
  // The budget of the rank's stage (session_budget.cpp); with mutex_ held, but for foundStages().
  bool awaitsStage() const;
  void learnStage(const StepSummary& summary);
  bool foundStages(const std::vector<std::int32_t>& stages);
  void giveUpStage(const std::string& why);
  void takeBudget();
  void beginAnew(bool shrank);
  void planLoop();
  void placeStep();
  // The job's plan (session_job.cpp), by the planning thread.
  RankPlanning::Limits jobLimits(std::int64_t cap, std::optional<std::int64_t> budget) const;
  void startRankJob();
  void fallShort(const JobFindings::Rank& of);
  void endRound(const std::string& why);
  void stopOnceAdvised();
  void pollJob();
  std::chrono::steady_clock::time_point nextLook() const;  // at what the others say
  // `budget_changes`, here and below: of budget_changes_, when what is told or planned was begun.
  void tellJob(const scheduler::Trace& trace, const StepSchedule& own,
               const RankPlanning::Limits& limits, int budget_changes);
  bool followJob(const scheduler::Trace& trace, Planned& planned,
                 const RankPlanning::Limits& limits);
  void adopt(const RankJob::Decision& decision);
  static std::shared_ptr<Plan> planNow(Program& known, std::int64_t step);  // mutex_ held
  void planOnce(scheduler::Trace trace, bool first_step, int budget_changes);
  scheduler::PlanResult planWithin(const scheduler::Graph& graph, std::int64_t cap) const;
  Planned bestPlan(const scheduler::Trace& trace, const scheduler::TraceGraph& plain,
                   std::int64_t cap) const;
  void preferRehearsed(const scheduler::Trace& trace, bool first_step, std::int64_t cap,
                       Planned& planned) const;
  void replayAhead(Planned& planned, std::int64_t cap) const;
  // From its next step on, or from that one.
  void publish(const scheduler::Trace& trace, const Planned& planned, double plan_seconds,
               int budget_changes, std::int64_t from_step = 0);
  void requestPlan(scheduler::Trace trace, bool first_step);
  void analyse(const scheduler::Trace& trace, bool first_step, bool check_floor, bool alone,
               int budget_changes);
  void finishStep(StepSummary summary);
  bool checkFloor(const scheduler::TraceGraph& graph, bool alone, bool in_pipeline,
                  int budget_changes);
  bool checksFloor();  // mutex_ held
  void noteProgram(const StepSummary& summary);
  std::uint64_t expectedProgram() const;  // 0: none is; mutex_ held
  // mutex_ held, all of these (session_judgement.cpp)
  void judgeStep(const StepSummary& summary, const allocator::Statistics& memory);
  void debugStep(const allocator::Statistics& memory) const;
  Program* programOf(const StepSummary& summary);
  void notePlainPeak(Program& known, const allocator::Statistics& memory) const;
  void judgePlan(const StepSummary& summary, const allocator::Statistics& memory, bool spilled,
                 Program& known) const;
  void judgeSpilling(const StepSummary& summary, Program* known);
  bool wantsPlan(const StepSummary& summary);
  bool replaysRejected(const Plan& plan) const;  // mutex_ held
  void planAnew(Program& known);                 // so many times; mutex_ held
  void openAuditCache(int threads);
  void keepRejected(scheduler::Trace& trace);                        // mutex_ held
  bool rehearsedBefore(const scheduler::Trace& trace, Plan& plan);   // mutex_ held
  bool comparedBefore(std::uint64_t program, std::size_t op) const;  // mutex_ held
  static void noteTrustedStep(Program& known, bool compared_whole);
  static void noteAuditKeys(Program& known, const std::vector<AuditKey>& audit_keys);
  void forgetPrograms();               // mutex_ held
  const Program* mainProgram() const;  // the one most steps ran; mutex_ held
  void refreshMetrics(const allocator::Statistics& memory);
  std::int64_t planningCap() const;
  void say(const std::string& text) const;

  Config config_;
  AuditCache::Host host_;
  std::unique_ptr<AuditCache> audits_;  // since wake(); nullptr: nothing is remembered
  std::unique_ptr<allocator::DeviceMemory> host_memory_;
  allocator::DeviceMemory* memory_;         // that is trained in
  std::optional<StepObserver> observer_;    // of memory_
  std::optional<StepPlacement> placement_;  // there; none where streams share it
  SpillStore file_;
  SpillTarget* spills_ = &file_;  // that the executor writes to
  metrics::RankMetrics metrics_;
  std::unique_ptr<metrics::HttpServer> server_;
  std::once_flag woken_;
  std::atomic<bool> awake_{false};
  std::atomic<bool> disabled_{false}, keeps_everything_{false};
  std::atomic<bool> stop_{false};
  std::atomic<bool> goes_on_{false}, never_goes_on_{false}, backward_crosses_hints_{false};
  std::atomic<bool> offload_fails_{false};
  std::atomic<bool> measures_only_{false};  // no entry of EBBTIDE_BUDGET is the rank's
  std::atomic<std::int64_t> late_backwards_{0};
  std::atomic<std::int64_t> slack_at_peak_bytes_{0};  // of the last step, mapped in no block

  mutable std::mutex mutex_;  // guards all below
  std::condition_variable changed_;
  std::thread planner_;
  std::optional<RankJob> rank_job_;        // of the planning thread alone
  std::optional<JobTraffic> job_traffic_;  // since that has ended
  int threads_ = 1;                        // of one op, since wake()
  bool closing_ = false;
  bool planning_ = false;
  std::unique_ptr<scheduler::Trace> to_plan_;
  bool to_plan_first_step_ = false;
  RankJob::OpenStore open_job_store_;
  SetBudget set_budget_;
  std::optional<StageBudget> stage_budget_;
  bool stage_changed_ = false;  // the budget is taken when the next step begins
  bool stage_given_up_ = false;
  std::optional<std::chrono::steady_clock::time_point> stage_wait_until_;
  int budget_changes_ = 0;
  // A rank of a pipeline that cannot fit stops once it knows who could help, or at this time.
  std::optional<std::chrono::steady_clock::time_point> stop_by_;
  bool told_job_ = false, advised_ = false, said_short_ = false;
  std::map<std::uint64_t, Program> programs_;  // by trace signature
  std::uint64_t last_signature_ = 0;
  std::deque<std::uint64_t> history_;  // the programs of the last steps, the last one at its end
  std::set<std::uint64_t> rejected_;   // op signatures whose replay differed: never dropped again
  std::set<std::uint64_t> differed_;   // of them those that did not merely fail
  std::map<std::string, std::int64_t> audited_ops_, rejected_ops_;
  std::map<std::string, std::int64_t> audited_from_cache_, rejected_from_cache_;
  std::int64_t rehearsed_steps_ = 0;
  int steps_to_record_ = 3;
  int record_until_seen_ = kRecordUntilSeen;  // steps
  std::shared_ptr<const Plan> last_plan_;     // of the last step that ended
  std::shared_ptr<EventLog> log_;  // of the one step at a time that observes the allocator
  int floor_checks_ = 0;
  std::string stop_message_;
  bool said_fits_ = false, said_infeasible_ = false, said_spills_ = false;

  // figures of the run
  std::int64_t steps_ = 0;
  std::chrono::steady_clock::time_point step_start_;
  std::vector<double> step_seconds_;
  std::int64_t base_bytes_ = 0;
  std::int64_t first_step_peak_bytes_ = 0, allocated_peak_bytes_ = 0, mapped_peak_bytes_ = 0;
  std::atomic<std::int64_t> smallest_feasible_bytes_{0};
  std::int64_t smallest_without_spill_bytes_ = 0;
  allocator::Statistics allocator_before_step_;
  std::int64_t step_base_bytes_ = 0, step_activation_bytes_ = 0;
  std::int64_t violations_ = 0, violations_before_budget_ = 0, spilled_before_step_ = 0,
               replays_before_step_ = 0;
  std::int64_t offload_ns_before_step_ = 0;
  std::int64_t dropped_before_step_ = 0;
  std::int64_t late_backwards_before_step_ = 0;
  std::int64_t active_from_step_ = -1;
  std::string dominating_;
  std::atomic<std::int64_t> recomputed_ops_{0}, recompute_ns_{0}, spilled_bytes_{0};
  std::atomic<std::int64_t> replays_ahead_{0}, ahead_ns_{0};  // of messages
  std::atomic<std::int64_t> decoded_values_{0}, codec_ns_{0};
  std::atomic<std::int64_t> offloaded_bytes_{0}, offload_ns_{0};
  std::atomic<std::int64_t> dropped_online_bytes_{0}, replayed_online_ops_{0};
  std::atomic<bool> pressed_{false}, only_spills_{false}, any_rejected_{false};
  EvictionCosts eviction_costs_;
  std::vector<std::pair<double, std::int64_t>> timeline_;
};

}  // namespace ebbtide::plugin
