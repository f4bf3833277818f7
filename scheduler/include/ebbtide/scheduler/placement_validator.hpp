// Placement validator: is a placement legal? Shares no code with the packers.
#pragma once

#include <optional>
#include <string>

#include "ebbtide/scheduler/placement.hpp"

namespace ebbtide::scheduler {

// Of a problem that place() accepts. Returns nothing when the placement is legal, else one sentence
// naming the first fault: an offset missing, below 0, over 2^60 or not aligned, a height that is
// not what the buffers say or is above the capacity, in the order of time two buffers that overlap,
// a LOAD that is not theirs.
std::optional<std::string> validate(const PlacementProblem& problem, const Placement& placement,
                                    std::optional<Bytes> capacity_bytes = std::nullopt);

}  // namespace ebbtide::scheduler
