// StepLifetimes: from the log of two equal steps to the lifetimes that placement needs, and back to
// a PlacedSequence.
//
// Time is counted in noted allocations: they alone can collide, and frees of blocks from before the
// recording shift nothing. Steps follow each other, so it is a circle: a block that is freed in the
// next step lives over the end of its own. What outlives the next step, or a whole round, gets no
// place.
#pragma once

#include <span>
#include <vector>

#include "ebbtide/allocator/placed_sequence.hpp"
#include "ebbtide/allocator/recording_resource.hpp"

namespace ebbtide::allocator {

struct StepLifetimes {
  struct Lifetime {
    std::int64_t begin, end;  // half open, in allocations since the step's begin
    Bytes bytes;
  };

  std::int64_t period = 0;           // allocations from this step's begin to the next
  std::vector<std::uint32_t> units;  // of every block of the step, in order
  std::vector<std::uint32_t> phase_begins;
  std::vector<Lifetime> lifetimes;    // of the blocks that get a place
  std::vector<std::uint32_t> placed;  // which those are, in `units`
};

// The log's marks: each step's begin, with its phases between; `phases` a step (at least 1), two
// steps and the end of the second. Empty when the log is not like that.
StepLifetimes stepLifetimes(const RequestLog& log, std::size_t phases);

// offsets: one for each lifetime, multiples of kUnitBytes.
PlacedSequence placedSequence(const StepLifetimes& step, std::span<const Bytes> offsets);

}  // namespace ebbtide::allocator
