// JobClient: a process's part in the plan of its whole job, where its steps exchange messages with
// other ranks. Torch-free.
//
//   the group's store is offered · begin() ─► tell() of a recorded step ─► poll() … ─► adopt()
//        └─ another rank than was taken: begin() again                                  └─► end()
//
// Thread rule: the planning thread, where no other one is named, and once it has ended the one that
// ended it.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "config/current_config.hpp"
#include "job/rank_job.hpp"
#include "plan/plan_search.hpp"
#include "runtime/run/session_guard.hpp"

namespace ebbtide::plugin {

class JobClient {
 public:
  using Held = SessionGuard::Held;
  using Time = RankJob::Time;
  using Tell = RankJob::Tell;

  // Whose part it is.
  class Process {
   public:
    virtual ~Process() = default;
    // As RankJob::Process has them.
    virtual bool foundStages(const std::vector<std::int32_t>& stages) = 0;
    virtual void seeStages(const std::vector<std::int32_t>& stages) = 0;
    virtual void fallShort(const JobFindings::Rank& of) = 0;
    virtual void endRound(const std::string& why) = 0;
    // It is to be run from its step on.
    virtual void adopt(const RankJob::Decision& decision) = 0;
  };
  struct Here {
    std::string torch_version;
    int threads = 1;      // of one op
    bool of_gpu = false;  // which is the rank's own: ranks on a host's processors take turns
  };

  // All of it must outlive this. `ends`: the process ends, and planning with it.
  JobClient(const CurrentConfig& config, SessionGuard& guard, Process& process,
            const std::atomic<bool>& ends, Tell say, Tell debug);

  // Any thread, these two.
  void offerStore(RankJob::OpenStore open);
  bool hasStore(const Held& held) const { return open_store_.with(held) != nullptr; }

  // As the rank that it is taken to be by now.
  void begin(const Here& here);
  // As another rank than it began as: not where others have it in their plans.
  void beginAnew(const Here& here);
  bool takesPart() const { return job_ && job_->takesPart(); }

  // A plan's, that may take so many bytes; `asks_stages`: the rank's budget depends on them.
  RankPlanning::Limits limits(std::int64_t cap_bytes, std::optional<std::int64_t> budget_bytes,
                              bool asks_stages) const;
  // Of a recorded step: as RankJob::noteStep().
  void tell(const scheduler::Trace& trace, const StepSchedule& own,
            const RankPlanning::Limits& limits);
  // By the job's plan, where it has one that is better than the rank's own. False: it has not.
  bool follow(const scheduler::Trace& trace, Planned& planned, const RankPlanning::Limits& limits);
  // What such a schedule comes to.
  static void put(StepSchedule schedule, std::int64_t cap_bytes, Planned& planned);

  // Throws what the store does.
  void poll(Time now, JobProgress progress);
  Time nextPoll() const;  // within a day

  // And with it the connection to the job's store.
  void end();
  // Since end(); nothing: its steps exchange no messages with others.
  const std::optional<JobTraffic>& traffic() const { return traffic_; }

 private:
  const CurrentConfig& config_;
  SessionGuard& guard_;
  Process& process_;
  const std::atomic<bool>& ends_;
  const Tell say_, debug_;
  Guarded<RankJob::OpenStore, Session> open_store_;
  std::optional<RankJob> job_;
  std::optional<JobTraffic> traffic_;
};

}  // namespace ebbtide::plugin
