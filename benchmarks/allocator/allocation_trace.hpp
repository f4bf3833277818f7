// AllocationTrace: every allocation and free of some training steps, as text, and as a loop that
// can be replayed for ever.
//
//   alloc 17 4096      block 17, 4,096 bytes; no number comes twice
//   free 17
//   step               a step begins; what was allocated before the first one lives by then
//
// A line each, ended by LF; words apart by one space; numbers decimal, without a leading zero.
#pragma once

#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

#include "ebbtide/allocator/bytes.hpp"

namespace ebbtide::benchmarks {

using allocator::Bytes;

struct AllocationTrace {
  struct Event {
    std::uint32_t block;  // place in `blocks`
    bool is_free;
  };

  std::vector<Bytes> blocks;  // sizes, in the order of allocation
  std::vector<Event> before;  // the first step
  std::vector<std::vector<Event>> steps;
};

// Throws std::invalid_argument naming the line: one of another form, a number taken or of no live
// block, no bytes, more than 2^56 bytes live; or if there is no allocation in any step.
AllocationTrace parseAllocationTrace(std::string_view text);

// The steps over and over. What lives at their end takes the places of equally large blocks that
// lived at their begin; blocks without such a partner are freed, and allocated, at the end.
struct ReplayLoop {
  struct Event {
    std::uint32_t slot;  // where the pointer is kept
    Bytes bytes;         // 0: free it
  };
  struct Carry {
    std::uint32_t from, to;  // slots, when the last step has ended
  };

  std::vector<Event> before;
  std::vector<std::vector<Event>> steps;
  std::vector<Carry> carries;
  std::uint32_t slots = 0;
  std::int64_t allocations = 0;  // of all steps
  Bytes live_peak_bytes = 0;
};

// With blocks of at least so many bytes alone.
ReplayLoop makeReplayLoop(const AllocationTrace& trace, Bytes least_bytes);

}  // namespace ebbtide::benchmarks
