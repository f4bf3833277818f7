// Reclaimer: frees blocks when the budget is short.
#pragma once

#include "ebbtide/allocator/bytes.hpp"

namespace ebbtide::allocator {

struct ReclaimRequest {
  Bytes need_bytes;  // the shortfall, all room and cache counted; doubled at each further attempt
  Stream stream;     // that the memory is for
  int attempt;       // 0 for the first call of one allocation
};

class Reclaimer {
 public:
  virtual ~Reclaimer() = default;
  // Returns how many bytes it freed through deallocate(), for its own statistics: what became
  // usable decides whether a call made progress. No lock of the allocator is held; it may
  // deallocate(), and allocate() too: a nested call never re-enters it.
  virtual Bytes reclaim(const ReclaimRequest& request) noexcept = 0;
};

}  // namespace ebbtide::allocator
