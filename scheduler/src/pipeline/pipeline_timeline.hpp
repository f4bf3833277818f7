// When the actions of a job run, as fast as can be told again after a change: the planner's own
// model of time, apart from the simulator's.
#pragma once

#include <cstdint>
#include <vector>

#include "ebbtide/scheduler/pipeline_job.hpp"

namespace ebbtide::scheduler {

// Actions are numbered so that each comes after those that it waits for.
class PipelineTimeline {
 public:
  // Throws std::invalid_argument if ranks wait for each other in a circle. The job outlives it.
  explicit PipelineTimeline(const PipelineJob& job);

  std::size_t actions() const { return nodes_.size(); }
  std::int32_t numberOf(std::size_t rank, std::size_t position) const {
    return number_[rank][position];
  }

  // The makespan with these replays before each action; ns, by number. `ahead_ns` of the replays
  // may run before the action waits for its message.
  Nanoseconds run(const std::vector<Nanoseconds>& recompute_ns,
                  const std::vector<Nanoseconds>& ahead_ns);
  // After run(), of the same: by how much the replays before each action may grow, alone, without a
  // longer step. Where all run ahead what they grow by does, too.
  const std::vector<Nanoseconds>& slacks(const std::vector<Nanoseconds>& recompute_ns,
                                         const std::vector<Nanoseconds>& ahead_ns);
  // After slacks(): from an action's end to the step's end, at least, with the replays given.
  Nanoseconds remainingAfter(std::int32_t action) const { return makespan_ - latest_end_[action]; }
  // After run(): how long the action would wait for its message if nothing were replayed before it.
  Nanoseconds waitOf(std::int32_t action) const;
  Nanoseconds beginOf(std::int32_t action) const { return begin_[action]; }
  Nanoseconds durationOf(std::int32_t action) const { return nodes_[action].duration_ns; }

 private:
  struct Node {
    std::int32_t before = kNone;          // on the rank
    std::int32_t sender = kNone;          // whose message it waits for
    std::int32_t message_before = kNone;  // sent on the same link before its own
    Nanoseconds duration_ns = 0;
    Nanoseconds transfer_ns = 0;  // of its own message
    Nanoseconds latency_ns = 0;   // of the message that it waits for
    Nanoseconds tail_ns = 0;      // the rank's, after its last action
  };

  void number(const PipelineJob& job);
  void addMessages(const PipelineJob& job);

  std::vector<Node> nodes_;
  std::vector<std::vector<std::int32_t>> number_;        // by rank, by position
  std::vector<Nanoseconds> begin_, end_, sent_, ready_;  // ready_: the rank
  std::vector<Nanoseconds> latest_end_, latest_sent_, slack_;
  Nanoseconds makespan_ = 0;
};

}  // namespace ebbtide::scheduler
