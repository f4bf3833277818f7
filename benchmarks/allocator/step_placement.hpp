// Where the large blocks of a replayed step go, as in training: recorded, then placed.
#pragma once

#include "allocation_trace.hpp"
#include "ebbtide/allocator/placed_sequence.hpp"

namespace ebbtide::benchmarks {

struct StepPlacement {
  allocator::PlacedSequence sequence;
  std::int64_t lifetimes = 0;  // placed
  Bytes load_bytes = 0;        // no placement is lower
  Bytes height_bytes = 0;
};

// Of the loop's first step. Throws std::runtime_error if the placement is not legal.
StepPlacement placeStep(const ReplayLoop& loop);

}  // namespace ebbtide::benchmarks
