// Session: one a process. Owns the parts of a run and hands them out. Each part owns its state: the
// budget, programs, job, series, files, what follows from steps and verification steps. The session
// itself does what needs several parts: the run begins, forks, ends. Torch-free.
//
// Thread rule: the parts say theirs. Training threads begin and end steps; the server's thread
// takes views.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "config/current_config.hpp"
#include "ebbtide/allocator/device_memory.hpp"
#include "ebbtide/metrics/routes.hpp"
#include "memory/trained_memory.hpp"
#include "runtime/budget/budget_controller.hpp"
#include "runtime/budget/drops_allowed.hpp"
#include "runtime/budget/outage_course.hpp"
#include "runtime/output/run_lines.hpp"
#include "runtime/output/run_outputs.hpp"
#include "runtime/planning/planning_service.hpp"
#include "runtime/planning_loop.hpp"
#include "runtime/programs/steps_so_far.hpp"
#include "runtime/rank_in_job.hpp"
#include "runtime/run/run_control.hpp"
#include "runtime/run/run_life.hpp"
#include "runtime/run_view.hpp"
#include "runtime/step_course.hpp"
#include "runtime/step_planning.hpp"
#include "runtime/steps/step_start.hpp"
#include "runtime/steps/step_summary.hpp"
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
  // Says once that an inert child (RunLife) is not managed; nothing elsewhere.
  static void noteBackwardInChild() noexcept;

  // --- the process
  // Of the rank that it is taken to be by now; what is returned stays valid, and as it was.
  const Config& config() const noexcept { return *config_; }
  const std::string& torchVersion() const noexcept { return torch_version_; }
  const RunLife& life() const noexcept { return life_; }
  const RunLines& lines() const noexcept { return lines_; }
  RunOutputs& outputs() noexcept { return outputs_; }
  // What it answers, from wake() on; any thread. Control adds to them, before.
  metrics::Routes& routes() noexcept { return routes_; }

  // --- the parts of its run
  SessionGuard& guard() const noexcept { return mutex_; }
  TrainedMemory& trained() noexcept { return trained_; }
  BudgetController& budgets() noexcept { return budget_; }
  DropsAllowed& drops() noexcept { return drops_; }
  OutageCourse& outage() noexcept { return outage_; }
  StepCourse& course() noexcept { return course_; }
  Verifications& verifications() noexcept { return verifications_; }
  ReplayTrust& replayTrust() noexcept { return replay_trust_; }
  PlanningService& planning() noexcept { return planning_; }
  StepPlanning& plans() noexcept { return plans_; }
  RankInJob& rank() noexcept { return rank_; }

  // --- what needs several parts
  // Before wake(): the memory that the budget bounds, and where its values go, where that is not
  // the CPU's and the spill file. Both must outlive the session.
  // `set_budget` takes another budget as it was written, "" for none; nullptr: the memory's own
  // way.
  // `most_bytes`: that the device has; `facts`: of its memory; nullptr: not known.
  void trainOn(allocator::DeviceMemory& memory, SpillTarget& spills,
               TrainedMemory::SetBudget set_budget, TrainedMemory::MostBytes most_bytes = nullptr,
               TrainedMemory::Facts facts = nullptr);
  // Banner and server, at the first training op: launchers and data loaders that only import torch
  // stay silent.
  void wake(int threads);  // of one op, now
  StepStart beginStep(bool trains = true);
  void endStep(StepSummary summary);
  RunView view(const Held& held) const;  // for those who look on

  // --- at exit
  // Says that memory exceeded the budget. Does nothing if a step was seen.
  void sayExceededUntrained(std::int64_t budget_bytes, std::int64_t peak_bytes) const;
  void writeReport() { outputs_.files.writeReport(reportText()); }
  // Joins the planner, writes the report, stops the server: once. Who comes later waits until that
  // is done, 10 s at most.
  void shutdown();

 private:
  JudgedRun judgedRun();  // of the members above budget_
  void lockForFork();
  void unlockAfterFork();
  std::string reportText() const;
  std::string interimReport();  // while it runs: a first step's peak so far, too

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
  OutageCourse outage_{budget_};
  BudgetController budget_;
  StepPlanning plans_;
  Verifications verifications_;
  StepCourse course_;
  PlanningLoop loop_;
};

}  // namespace ebbtide::plugin
