// Replays that cost a rank of a pipeline no time, since it would wait meanwhile, and schedules of
// its step that are better for them.
#pragma once

#include <vector>

#include "ebbtide/scheduler/microbatch.hpp"
#include "ebbtide/scheduler/pipeline_job.hpp"
#include "ebbtide/scheduler/planner.hpp"

namespace ebbtide::scheduler {

// A job's step with given replays before each microbatch's backward pass, by stage and microbatch.
struct ReplayedStep {
  Nanoseconds makespan_ns = 0;
  // So much may be replayed there for nothing: while the rank waits for the gradient, whatever it
  // replays elsewhere, or as much as it replays now where that is made up for later.
  std::vector<std::vector<Nanoseconds>> free_ns;
};
// Throws std::invalid_argument if ranks wait for each other in a circle. Precondition: checkJob()
// accepts the job.
ReplayedStep replayedStep(const PipelineJob& job,
                          const std::vector<std::vector<Nanoseconds>>& replays_ns);

// What a schedule of the step replays for each microbatch's backward pass.
std::vector<Nanoseconds> replaysOf(const Graph& step,
                                   const std::vector<MicrobatchOps>& microbatches,
                                   const Schedule& schedule);

// Of these replays what lengthens the step, if so much of each microbatch's does not.
Nanoseconds exposedNs(const std::vector<Nanoseconds>& replays_ns,
                      const std::vector<Nanoseconds>& free_ns);

// From a legal schedule on, one that exposes less and stays within the budget; the same if there is
// none to be found.
Schedule exposeLess(const Graph& step, const std::vector<MicrobatchOps>& microbatches,
                    const std::vector<Nanoseconds>& free_ns, Bytes budget_bytes,
                    const Schedule& start, const PlannerOptions& options);

}  // namespace ebbtide::scheduler
