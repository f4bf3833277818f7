// RankPlanning: what one rank of a pipeline tells the others of its step, and the schedule that it
// makes of the job's plan. Torch-free.
//
//   trace, own plan ─► study() ─► RankReport ─► (JobAgreement) ─► JobPlan ─► follow() ─► schedule
//
// Thread rule: one thread, the planning thread.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>

#include "ebbtide/scheduler/graph_builder.hpp"
#include "ebbtide/scheduler/planner.hpp"
#include "ebbtide/scheduler/rank_curves.hpp"
#include "ebbtide/scheduler/schedule.hpp"
#include "ebbtide/scheduler/trace.hpp"
#include "job/job_plan.hpp"
#include "job/rank_report.hpp"

namespace ebbtide::plugin {

// A schedule of a recorded step: the graph that it is of, with its copies, and who made it.
struct StepSchedule {
  scheduler::TraceGraph step;
  scheduler::Schedule schedule;
  std::string planner;
};

class RankPlanning {
 public:
  struct Identity {
    JobVersions versions = {};
    std::int32_t global_rank = 0;
    std::string host = {};
    std::int32_t host_processors = 0;  // 0: each rank has its own
  };
  struct Limits {
    Bytes cap_bytes = 0;  // of a plan
    std::chrono::steady_clock::duration planning_time{};
    std::string planner = "auto";
    bool asks_stages = false;  // as the report's
    std::optional<Bytes> budget_bytes = std::nullopt;
    const std::atomic<bool>* cancelled = nullptr;  // true: nobody waits for it any more
  };

  explicit RankPlanning(Identity identity) : identity_(std::move(identity)) {}

  // The report for a step with messages between ranks. `own` is the rank's own plan for the step,
  // and keeps everything where it fits. Takes up to the planning time. Throws nothing: where no
  // plan can be made, the report names the reason.
  RankReport study(const scheduler::Trace& trace, const StepSchedule& own, const Limits& limits);

  // Is a step of this signature the one that was studied last?
  bool studied(std::uint64_t signature) const { return report_ && signature == signature_; }

  // By the job's plan: the schedule of a step of the program studied that exposes the least of its
  // replays, `own` among those compared; never one over the cap that `own` is not over. Nothing
  // where `own` is the best, or the step is another program's. Throws nothing.
  std::optional<StepSchedule> follow(const JobPlan& plan, const scheduler::Trace& trace,
                                     const StepSchedule& own, const Limits& limits) const;

 private:
  void describe(const scheduler::Trace& trace, const StepSchedule& own, const Limits& limits,
                RankReport& report);
  std::optional<StepSchedule> compose(const std::vector<std::int32_t>& points,
                                      const scheduler::Trace& trace,
                                      const scheduler::RankActions& actions) const;

  Identity identity_;
  std::uint64_t signature_ = 0;
  std::optional<RankReport> report_;
  std::optional<scheduler::RankCurves> curves_;
};

}  // namespace ebbtide::plugin
