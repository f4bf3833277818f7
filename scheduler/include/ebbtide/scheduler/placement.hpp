// Placement: offsets for buffers of known size and lifetime, so that no two that are alive at once
// overlap, as low as can be (dynamic storage allocation). Data in, data out: no clock but the
// deadline, no global, no randomness but the seed, and of the outside nothing but whether anybody
// still waits.
//
//   offset ▲        ┌─────────┐
//          │ ┌──────┤    c    │            height = the largest offset + size
//          │ │  b   └──┬──────┴──┐         LOAD = the largest sum of live sizes ≤ height
//          │ ├─────────┤    d    │
//          │ │    a    │         │
//          └─┴─────────┴─────────┴──► time
#pragma once

#include <atomic>
#include <chrono>
#include <string>
#include <vector>

#include "ebbtide/scheduler/units.hpp"

namespace ebbtide::scheduler {

struct Buffer {
  std::int64_t lower = 0, upper = 0;  // alive in [lower, upper); any unit of time
  Bytes bytes = 0;                    // none: at offset 0, in nobody's way
};

// A size counts rounded up to the alignment, in heights and in LOAD.
struct PlacementProblem {
  std::vector<Buffer> buffers;
  Bytes alignment_bytes = 1;  // offsets are multiples of it
  // Numbers of buffers that go first, in this order, each as low as it can. What is proven to be
  // optimal is so among placements that begin so.
  std::vector<std::int32_t> first = {};
};

struct PlacementOptions {
  // Without one the work is counted, and the result is the same for a seed on any machine, whatever
  // `threads`. Past from the start: the first packing.
  std::chrono::steady_clock::time_point deadline = std::chrono::steady_clock::time_point::max();
  Bytes capacity_bytes = 0;  // low enough: the search ends there, or at LOAD if that is higher
  unsigned threads = 1;
  std::uint64_t seed = 0;
  // Once it is true, from any thread, the search ends as if the deadline were past.
  const std::atomic<bool>* cancelled = nullptr;
};

// A height above the capacity is a result, not an error.
struct Placement {
  std::vector<Bytes> offsets;  // of each buffer
  Bytes height_bytes = 0;
  Bytes load_bytes = 0;
  bool optimal = false;  // proven: no placement is lower
  std::string method;    // who found it: "best fit by size", say
};

// Throw std::invalid_argument naming the buffer: a lifetime that is empty, a negative size, sizes
// (rounded up) whose sum does not fit 60 bits, times outside of +-2^60; an
// alignment below 1 or over 2^60; more than 2^28 buffers.
Placement place(const PlacementProblem& problem, const PlacementOptions& options = {});
Bytes placementLoad(const PlacementProblem& problem);

}  // namespace ebbtide::scheduler
