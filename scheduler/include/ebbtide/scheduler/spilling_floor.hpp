// What a step needs at least, whatever is kept on the host meanwhile.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "ebbtide/scheduler/graph.hpp"
#include "ebbtide/scheduler/graph_builder.hpp"
#include "ebbtide/scheduler/trace.hpp"

namespace ebbtide::scheduler {

struct SpillingFloor {
  Bytes bytes = 0;
  OpId op = kNone;  // where it is needed; kNone: there are no ops
};

// The lowest peak with every value on the host whenever no op reads or writes it and the program
// itself holds it no more.
SpillingFloor spillingFloor(const Graph& graph);

// What is live where the floor is needed, besides what lives all the time.
struct FloorBlocks {
  struct Size {
    Bytes bytes = 0;  // of one block
    std::int64_t blocks = 0;
  };
  enum class Place : std::uint8_t {
    kInStep,
    kUpdate,         // after the last node, and before the optimizer's step is over
    kAfterUpdate,    // an evaluation, say, until the next step begins
    kAfterBackward,  // one of the two: the trace has no such mark
  };
  // The op, or the node of the autograd graph; empty: the trace does not name it.
  std::string by;
  Place place = Place::kInStep;
  std::vector<Size> sizes;  // the most bytes first
};

// `graph` is buildGraph(trace), `floor` that graph's.
FloorBlocks floorBlocks(const Trace& trace, const TraceGraph& graph, const SpillingFloor& floor);

// "LogSoftmaxBackward0, 3 blocks of 148.4 MiB"; "the optimizer's step, not activations, …".
std::string describe(const FloorBlocks& blocks);

}  // namespace ebbtide::scheduler
