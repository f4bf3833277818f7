// RankJob: what a rank does for its job's plan, from its first recorded step to the schedule that
// it runs by. Torch-free.
//
// Thread rule: one thread, the planning thread.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "job/counted_job_store.hpp"
#include "job/job_agreement.hpp"
#include "job/job_findings.hpp"
#include "job/rank_planning.hpp"

namespace ebbtide::plugin {

class RankJob {
 public:
  using Time = JobAgreement::Time;
  // Of the process group with this name; nullptr: there is none.
  using OpenStore = std::function<std::unique_ptr<JobStore>(const std::string& group)>;
  using Tell = std::function<void(const std::string& text)>;

  // What it asks of the process.
  struct Process {
    OpenStore open_store;
    Tell say, debug;
    // The rank's stages, where it asked for them. True: its budget changes with them, and there
    // will be a step under that one.
    std::function<bool(const std::vector<std::int32_t>& stages)> take_stages;
    std::function<void(const JobFindings::Rank& of)> fall_short;  // this rank, whatever it replays
    // All stages of the pipeline, where this rank plans for it, the job's first rank among its
    // ranks: once they are known, before it plans. Nothing: it is not asked for.
    std::function<void(const std::vector<std::int32_t>& stages)> see_stages = {};
    // "": with a plan. Not of a round that leaves all to another one.
    std::function<void(const std::string& why)> end_round;
    // Becomes true on another thread: this process ends, and planning with it. nullptr: never.
    const std::atomic<bool>* ends = nullptr;
  };

  // A schedule for a recorded step, to be used from a step of the rank's on.
  struct Decision {
    scheduler::Trace trace;
    StepSchedule schedule;
    std::int64_t from_step = 0;
  };

  RankJob(RankPlanning::Identity identity, Process process);

  // The rank has a plan of its own for a recorded step with messages. Reports the first one of its
  // program, under each budget, to the job; may take the planning time.
  void noteStep(const scheduler::Trace& trace, const StepSchedule& own,
                const RankPlanning::Limits& limits);
  // What the job's plan, if one is in use, makes of it; nothing: the rank's own is better.
  std::optional<StepSchedule> follow(const scheduler::Trace& trace, const StepSchedule& own,
                                     const RankPlanning::Limits& limits);

  void poll(Time now, JobProgress progress);
  Time nextPoll() const;  // Time::max(): nothing is due
  // Of all groups so far; nothing: it has been in none.
  std::optional<JobTraffic> traffic() const;
  bool takesPart() const { return agreement_ != nullptr && agreement_->alive(); }
  std::optional<Decision> takeDecision() { return std::exchange(decision_, std::nullopt); }

 private:
  JobCallbacks callbacks();
  void seeStages(const std::vector<RankReport>& reports) const;
  void takeFindings(const std::string& text);
  std::optional<std::string> prepare(const std::string& text);
  void commit(std::int64_t step);
  void keepOwn(const std::string& why);
  void keepOwnForNow(const std::string& why);
  void useOwn(std::int64_t from_step);

  RankPlanning planning_;
  const Process process_;
  JobTraffic traffic_;
  std::unique_ptr<JobAgreement> agreement_;  // over a store that counts in traffic_
  std::string group_;                        // of agreement_, as the next two
  std::int32_t group_rank_ = -1, group_size_ = 0;
  int studies_ = 0;
  RankReport report_;                  // the last one
  bool withdrawn_ = false;             // it holds no more
  std::optional<Bytes> budget_bytes_;  // that it was made under

  struct Noted {
    scheduler::Trace trace;
    StepSchedule own;
    RankPlanning::Limits limits;
  };
  std::optional<Noted> noted_;
  struct Prepared {
    JobPlan plan;
    scheduler::Trace trace;
    std::optional<StepSchedule> schedule;  // nothing: the rank's own
  };
  std::optional<Prepared> prepared_;
  std::optional<JobPlan> plan_;  // in use
  bool follows_ = false;  // a schedule of the job's was handed out, and none of its own since
  std::optional<Decision> decision_;
};

}  // namespace ebbtide::plugin
