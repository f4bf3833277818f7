// OutOfMemory: why a request failed, in numbers, and in words.
#pragma once

#include <string>

#include "ebbtide/allocator/bytes.hpp"

namespace ebbtide::plugin::cuda {

struct OutOfMemory {
  using Bytes = allocator::Bytes;

  int device = 0;
  Bytes requested_bytes = 0;
  Bytes block_bytes = 0;  // what the request takes
  Bytes device_free_bytes = 0, device_total_bytes = 0;
  Bytes budget_bytes = 0;
  Bytes margin_bytes = 0;  // of the budget, held by others
  Bytes mapped_bytes = 0;
  Bytes live_bytes = 0, awaiting_bytes = 0;
  std::size_t live_blocks = 0;  // awaiting ones, too
  Bytes idle_bytes = 0;         // mapped, in no block
  Bytes largest_idle_bytes = 0;
};

// 1 - largest idle run / idle bytes; 0 where nothing is idle.
double fragmentation(const OutOfMemory& facts) noexcept;
// The smallest budget under which the request would have fitted beside what is live now.
allocator::Bytes budgetThatFits(const OutOfMemory& facts) noexcept;
std::string describe(const OutOfMemory& facts);

}  // namespace ebbtide::plugin::cuda
