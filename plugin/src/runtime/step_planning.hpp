// StepPlanning: from a recorded step to a plan in force, and what is said about it: the first plan,
// that of a search, that of the job, that of a budget which is asked for. Torch-free.
//
//   a step is recorded ─► ask() ─► plan(), on the planning thread ─► a first plan in force ─┐
//                                    └─ none ─► search ─► what it found in force            │
//        takePolished(): in force, where that pays ◄─ a search beside the planning thread ◄─┘
//
// Thread rule: ask() from any thread; what takes no Held but that, on the planning thread. Nothing
// is planned with the guard held.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "ebbtide/scheduler/activation_shares.hpp"
#include "plan/plan.hpp"
#include "plan/plan_search.hpp"
#include "runtime/budget/budget_controller.hpp"
#include "runtime/budget/budget_outlook.hpp"
#include "runtime/budget/outage_course.hpp"
#include "runtime/planning/job_client.hpp"
#include "runtime/planning/planning_service.hpp"
#include "verify/replay_trust.hpp"

namespace ebbtide::plugin {

class StepPlanning {
 public:
  using Held = SessionGuard::Held;
  using Tell = PlanSearch::Tell;
  using Time = std::chrono::steady_clock::time_point;

  struct Parts {  // of the run; they outlive this, and are not used before it is made
    PlanningService& service;
    BudgetController& budget;
    OutageCourse& outage;
    JobClient& job;
    ReplayTrust& trust;
    ExecutorCounters& counters;
    const std::atomic<bool>& ends;
    Tell debug;
  };
  struct AskedPlan {  // of one program, for a budget that was asked for
    const scheduler::Trace& trace;
    std::shared_ptr<Plan> plan;  // nullptr: nothing is to be dropped
    std::int64_t predicted_peak_bytes = 0, plain_peak_bytes = 0;
    bool first_step = false;  // it was made of
  };

  explicit StepPlanning(Parts parts);

  // A recorded step is over: kept for those who ask, and planned where it is wanted.
  void ask(RecordedStep step);
  // `budget_number`, here and below: of the budget, when what is told or planned was begun.
  void plan(const RecordedStep& step, int budget_number);
  // Is a better plan searched for beside the planning thread?
  bool polishes(const Held& held) const { return service_.improved(held) != nullptr; }
  bool isPolished() const { return service_.isPolished(); }  // that search is over
  // Is this program's plan, which is in force, to be followed until that search is over?
  bool waitsForSearch(const Held& held, const Program& known) const;
  // A program without a plan, or with an inadequate one, may wait for a search too long: then the
  // search is cut.
  void cutLate(const Held& held);
  void takePolished();
  // What the ranks of the job have decided together.
  void adopt(const RankJob::Decision& decision);
  // One that fits so much, where any does. Throws what planners do.
  std::shared_ptr<Plan> within(const scheduler::Trace& trace, bool first_step,
                               std::int64_t cap) const;
  void take(const Held& held, const AskedPlan& asked);
  // nullptr: it cannot be drawn, which is no reason to do without a plan.
  std::shared_ptr<const PlanPicture> drawn(const scheduler::Trace& trace,
                                           const scheduler::TraceGraph& step,
                                           const scheduler::Schedule& schedule) const noexcept;
  // All programs, as if they were new; and the budget is judged again.
  void planAllAnew(const Held& held);
  void beginBudget(const Held&) { said_plans_ = 0; }  // another one holds: plans are said again
  void sayUnsaid(const Held& held);                   // at exit
  const BudgetOutlook& outlook() const noexcept { return outlook_; }

 private:
  const JudgedRun& run() const noexcept { return budget_.run(); }

  struct Task {  // a step that is planned
    Time start = {};
    RecordedStep step = {};
    scheduler::Bytes cap = 0;
    int budget_number = 0;

    std::chrono::duration<double> took() const { return std::chrono::steady_clock::now() - start; }
  };
  struct Polished {  // the better plan that is searched for
    Task of;
    std::chrono::duration<double> before = {};  // planning took until the search began
    std::chrono::nanoseconds used_before = {};  // by earlier searches for better plans
  };

  bool wants(const Held& held, const scheduler::Trace& trace);
  void keepAsked(const Held& held, std::uint64_t signature);
  void planOnce(const RecordedStep& recorded, int budget_number);
  // What the step takes as it is; where that fits, nothing is to be dropped. False: nobody waits
  // for a plan of it any more.
  bool notePlain(const Task& task, const scheduler::TraceGraph& graph, scheduler::Bytes plain_peak,
                 scheduler::ActivationShares shares);
  // A step that does not fit as it is.
  void planWithin(const Task& task, const scheduler::TraceGraph& graph,
                  const RankPlanning::Limits& limits);
  // True: a better plan is searched for, or will be with a later step. False: no first plan is in
  // force.
  bool beginPolishing(const Task& task, const scheduler::TraceGraph& graph);
  void publishPolished(const Polished& polished);
  void endSearch(const Held& held, int budget_number);
  void preferCompared(const scheduler::Trace& trace, bool first_step, std::int64_t cap,
                      Planned& planned) const;
  RankPlanning::Limits jobLimits(std::int64_t cap, std::optional<std::int64_t> budget) const;
  // That nothing is dropped.
  void tellPlain(const Task& task, scheduler::TraceGraph graph, const RankPlanning::Limits& limits);
  void tellJob(const scheduler::Trace& trace, const StepSchedule& own,
               const RankPlanning::Limits& limits, int budget_number);
  std::shared_ptr<Plan> planOf(const scheduler::Trace& trace, const Planned& planned,
                               double plan_seconds) const;
  // The only way in which a plan is put in force, from the next step on, or from that one;
  // nullptr: nothing is to be dropped.
  void putInForce(const Held& held, Program& known, const std::shared_ptr<Plan>& plan,
                  std::int64_t predicted_peak_bytes, std::int64_t from_step = 0);
  // A plan that is found at once, in force while a better one is searched for. False: there is
  // none.
  bool publishFirst(const Task& task, const scheduler::TraceGraph& graph);
  bool takesFirst(const Held& held, const scheduler::Trace& trace, int budget_number) const;
  std::optional<Planned> findFirst(const scheduler::Trace& trace,
                                   const scheduler::TraceGraph& graph, std::int64_t cap);
  void publish(const scheduler::Trace& trace, const Planned& planned, double plan_seconds,
               int budget_number, std::int64_t from_step = 0);
  void notePlanned(const Held& held, Program& known, const Plan& plan);
  void sayPlan(const Held& held, Program& known, const Plan& plan);
  void sayUnplanned(const RecordedStep& step, const std::string& why);

  PlanningService& service_;
  BudgetController& budget_;
  BudgetOutlook outlook_;
  OutageCourse& outage_;
  JobClient& job_;
  ReplayTrust& trust_;
  ExecutorCounters& counters_;
  const std::atomic<bool>& ends_;
  const Tell debug_;
  std::optional<Polished> polished_;  // the planning thread's
  int said_plans_ = 0;                // under this budget; the guard guards it
};

}  // namespace ebbtide::plugin
