// What a pipelined step takes, given what each microbatch of each stage keeps. Shares no code with
// the planner.
#pragma once

#include <utility>
#include <vector>

#include "ebbtide/scheduler/pipeline_job.hpp"

namespace ebbtide::scheduler {

struct SimulatedAction {
  Nanoseconds replays_begin_ns = 0;  // = begin_ns where nothing is replayed
  Nanoseconds replays_end_ns = 0;    // the same
  // Between these the replays stop, for want of room, until the gradient is there; both 0 where
  // they do not.
  Nanoseconds pause_begin_ns = 0;
  Nanoseconds pause_end_ns = 0;
  Nanoseconds begin_ns = 0;
  Nanoseconds end_ns = 0;
  Bytes most_bytes = 0;  // of the rank, while it or its replays run
};

// From when to when its replays run, at most two times.
std::vector<std::pair<Nanoseconds, Nanoseconds>> replayTimes(const SimulatedAction& action);

struct RankSimulation {
  Bytes peak_bytes = 0;
  std::size_t peak_action = 0;           // index into the rank's order
  Nanoseconds busy_ns = 0;               // of a processor, without replays
  Nanoseconds recompute_ns = 0;          // replays
  Nanoseconds hidden_ns = 0;             // of these, what ran while the rank would have waited
  Nanoseconds idle_ns = 0;               // waits between the step's begin and its end
  std::vector<SimulatedAction> actions;  // in the rank's order
};

struct PipelineSimulation {
  Nanoseconds makespan_ns = 0;
  std::vector<RankSimulation> ranks;
};

// Rules:
//  A rank begins an action when the one before has ended and what it reads has arrived: forward,
//    the output of the stage before; backward and input backward, the gradient from the stage
//    after.
//  Replays of a microbatch run on the rank right before its backward (or input backward). Those
//    that find room run as soon as the action before has ended, the others once the gradient is
//    there. Room is what the rank's budget leaves beside the backward with replays on demand. A
//    replay ahead takes its share of the further bytes that all replays of the microbatch take
//    ahead. Without PipelineJob::replays_ahead, and where no gradient is waited for, none run
//    ahead.
//  A message is sent when its action ends, takes latency + bytes / bandwidth, and waits for those
//    sent before on the same link (an ordered pair of ranks). None between stages of one rank.
//  Ranks that share processors (PipelineJob::processors) run slower as more of these ranks
//    compute. Times of the job are processor times; messages take none.
//  The step ends when each rank has run its last action and the tails of its stages.
//  Bytes: the rank's stages' fixed_bytes, what microbatches hold between their forward and their
//    backward, and the most of the action that runs, with the replays that ran ahead of it.
// Throws std::invalid_argument naming a rank and its action if ranks wait for each other in a
// circle, or the choices do not fit the job. Precondition: checkJob() accepts the job.
PipelineSimulation simulate(const PipelineJob& job, const StageChoices& choices);

// Every microbatch at the point with this index, or at the last one where there are fewer.
StageChoices uniformChoices(const PipelineJob& job, std::int32_t point);

}  // namespace ebbtide::scheduler
