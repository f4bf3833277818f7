// RankActions: what one rank's recorded step is, seen as its part of a pipeline.
//
// Found from data flow and messages: a backward pass belongs to the forward whose saved tensors it
// reads. Where the program names what it does (TraceScope), its names win.
//
//   events   receive · ops · send · receive · ops · send · receive · pass · send · pass · ops
//   actions  [ F, chunk 0       ]  [ F, chunk 1      ]   [ B, chunk 0     ] [ B, 1 ]  tail
#pragma once

#include <string>
#include <vector>

#include "ebbtide/scheduler/pipeline_job.hpp"
#include "ebbtide/scheduler/trace.hpp"

namespace ebbtide::scheduler {

struct RankMessage {
  std::int32_t message = 0;  // index into Trace::messages
  std::int32_t peer = 0;
  Bytes bytes = 0;
};

struct RankAction {
  PipelineAction::Kind kind = PipelineAction::Kind::kForward;
  std::int32_t chunk = 0;  // index into RankActions::chunks
  // What it computes lies within these events; the first and the last event are its own.
  std::size_t first_event = 0, end_event = 0;
  // Asked for since the action before computed. Another one may read it: a program may ask early.
  std::vector<RankMessage> received = {};
  std::vector<RankMessage> sent = {};  // of what it made
  Nanoseconds busy_ns = 0;             // processor time, with what came between it and the last one
};

// One microbatch in one stage.
struct RankChunk {
  std::int32_t part = 0;          // chunks that compute with the same parameters: a stage
  std::int32_t previous = kNone;  // the chunk of this rank whose output it reads without a message
  std::int32_t stage = kNone, microbatch = kNone;  // as scopes name them
};

struct RankActions {
  std::string refusal = {};  // why the step is no pipeline's that we know; then nothing else is set
  std::vector<RankAction> actions = {};  // in program order
  std::vector<RankChunk> chunks = {};    // in the order of their forwards
  std::int32_t parts = 0;
  Nanoseconds once_ns = 0;     // processor time before the first action and after the last one
  std::size_t tail_event = 0;  // the first after the last action: reduction of gradients, optimizer
};

// Never guesses: what does not follow from the trace is a refusal. Precondition: checkTrace() or
// buildGraph() accepts the trace.
RankActions recogniseActions(const Trace& trace);

// Stages that the program names in this step, ascending; also of steps that are not recognised.
std::vector<std::int32_t> namedStages(const Trace& trace);

}  // namespace ebbtide::scheduler
