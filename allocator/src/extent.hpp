// Extent: a stretch of a pool's addresses, one record each, in the order of addresses.
#pragma once

#include <cstdint>

#include "ebbtide/allocator/bytes.hpp"

namespace ebbtide::allocator {

using ExtentId = std::uint32_t;  // 0: none

enum class ExtentState : std::uint8_t {
  kNone,      // the record is not in use
  kLive,      // a block
  kFree,      // mapped, in no block
  kUnmapped,  // addresses only, whole pages
  kBusy,      // being mapped or unmapped by a thread that does not hold the lock
};

struct Extent {
  std::uint32_t begin;  // in units
  std::uint32_t units;
  ExtentId before, after;   // neighbours; 0 at the ends
  ExtentId previous, next;  // of its bin (kFree and kUnmapped); next: of unused records
  ExtentState state;
  bool shared;  // recordStream() was called for the block
};

}  // namespace ebbtide::allocator
