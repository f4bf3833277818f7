// Where the large blocks of a replayed step go, as in training: recorded, then placed.
#pragma once

#include "allocation_trace.hpp"
#include "memory/placed_step.hpp"

namespace ebbtide::benchmarks {

// Of the loop's first step. Throws std::runtime_error if the placement is not legal.
plugin::PlacedStep placeLoop(const ReplayLoop& loop);

}  // namespace ebbtide::benchmarks
