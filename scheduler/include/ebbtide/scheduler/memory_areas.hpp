// MemoryAreas: what the live bytes of a scheduled step are made of over time, for a picture.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "ebbtide/scheduler/graph_builder.hpp"
#include "ebbtide/scheduler/schedule.hpp"

namespace ebbtide::scheduler {

struct MemoryArea {
  // What the schedule does with the values of the area at some time of the step.
  enum class Action : std::uint8_t {
    kKept,
    kRecomputed,  // dropped, and made again by their op
    kOffloaded,   // dropped, and read back from the host
    kEncoded,     // dropped, and decoded from their bits; the bits too
    kBase,        // what no schedule changes: parameters, gradients, workspaces
  };
  std::string label;  // the op that made the values; "inputs", "base", "other"
  Action action = Action::kKept;
  std::vector<Bytes> live_bytes;  // at each of MemoryAreas::at_ns
};

struct MemoryAreas {
  std::vector<Nanoseconds> at_ns;  // of the step's ops and replays one after the other
  std::vector<MemoryArea> areas;   // at each time their sum is what simulate() has as live then
};

struct MemoryAreasOptions {
  std::size_t points = 500;  // each is the largest sum of its stretch of the step
  std::size_t labels = 12;   // those with the largest area; the rest is "other"
};

// Precondition: validate() accepts the schedule, and the graph is a recorded step's.
MemoryAreas memoryAreas(const TraceGraph& step, const Schedule& schedule,
                        const MemoryAreasOptions& options = {});

const char* nameOf(MemoryArea::Action action);

}  // namespace ebbtide::scheduler
