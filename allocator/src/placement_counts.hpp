// PlacementCounts: what became of the requests of steps that were foreseen. Values, in requests and
// bytes; not thread-safe.
#pragma once

#include <cstdint>

#include "ebbtide/allocator/placed_resource.hpp"

namespace ebbtide::allocator {

enum class PlacementOutcome {
  kPlaced,      // at its place
  kElsewhere,   // foreseen upstream
  kUnforeseen,  // no block of this size was expected
  kTaken,       // a block lay at its place
  kShort,       // nothing lay there, but it had no pages, or no addresses
};

struct PlacementRequest {
  PlacementOutcome outcome = PlacementOutcome::kElsewhere;
  bool deviated = false;  // the next block of the sequence was another one
  Bytes bytes = 0;        // rounded up to kUnitBytes
};

struct PlacementCounts {
  std::int64_t placed = 0, deviations = 0;
  std::int64_t late = 0;  // kTaken or kShort
  std::int64_t lent = 0;  // blocks of no foreseen step, in the arena
  PlacedBytes bytes;

  void add(const PlacementRequest& request) noexcept { count(request, 1); }
  void takeBack(const PlacementRequest& request) noexcept { count(request, -1); }
  PlacementCounts& operator+=(const PlacementCounts& other) noexcept;

 private:
  void count(const PlacementRequest& request, int sign) noexcept;
};

// At each large allocation.
inline void PlacementCounts::count(const PlacementRequest& request, int sign) noexcept {
  const Bytes signed_bytes = sign * request.bytes;
  bytes.requested += signed_bytes;
  if (request.deviated) deviations += sign;
  switch (request.outcome) {
    case PlacementOutcome::kPlaced:
      placed += sign;
      bytes.placed += signed_bytes;
      return;
    case PlacementOutcome::kElsewhere:
      return;
    case PlacementOutcome::kUnforeseen:
      bytes.misplaced += signed_bytes;
      return;
    case PlacementOutcome::kTaken:
      late += sign;
      bytes.misplaced += signed_bytes;
      return;
    case PlacementOutcome::kShort:
      late += sign;
      bytes.short_of_pages += signed_bytes;
  }
}

inline PlacementCounts& PlacementCounts::operator+=(const PlacementCounts& other) noexcept {
  placed += other.placed;
  deviations += other.deviations;
  late += other.late;
  lent += other.lent;
  bytes.requested += other.bytes.requested;
  bytes.placed += other.bytes.placed;
  bytes.misplaced += other.bytes.misplaced;
  bytes.short_of_pages += other.bytes.short_of_pages;
  return *this;
}

}  // namespace ebbtide::allocator
