// PlacedSequence: where the blocks of one training step go, in the order of their allocation.
//
// From recorded requests by placement (step_lifetimes.hpp). Only blocks too large for the small
// pool count; the others are not in it.
#pragma once

#include <cstdint>
#include <vector>

#include "ebbtide/allocator/bytes.hpp"

namespace ebbtide::allocator {

inline constexpr Bytes kUnitBytes = 4096;  // large blocks are multiples of it, and start at one

struct PlacedBlock {
  static constexpr std::uint32_t kNotPlaced = UINT32_MAX;  // outlives the step, say

  std::uint32_t units;         // size
  std::uint32_t offset_units;  // in the arena
};

struct PlacedSequence {
  std::vector<PlacedBlock> blocks;
  // Where each phase of the step begins in `blocks`; the first at 0. The cursor goes there when the
  // phase is announced.
  std::vector<std::uint32_t> phase_begins = {0};
  std::uint32_t height_units = 0;  // the largest offset + size
};

}  // namespace ebbtide::allocator
