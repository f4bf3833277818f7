// Names of streams for the allocator, which keeps a pool of memory for each name.
//
// A CUDA stream's name is its handle. Where memory must not be shared with the stream's other work,
// as for a captured graph's, the stream gets a further name: the address of a StreamAlias with its
// lowest bit set, which no handle has (those that are small numbers apart).
#pragma once

#include <cuda.h>

#include "ebbtide/allocator/bytes.hpp"

namespace ebbtide::allocator::cuda {

struct alignas(16) StreamAlias {
  CUstream handle;
};

inline Stream nameOf(CUstream handle) noexcept {
  return Stream{reinterpret_cast<std::uintptr_t>(handle)};
}

// The alias must live as long as the name is in use.
inline Stream nameOf(const StreamAlias& alias) noexcept {
  return Stream{reinterpret_cast<std::uintptr_t>(&alias) | 1};
}

inline CUstream handleOf(Stream name) noexcept {
  const auto value = static_cast<std::uintptr_t>(name);
  // 1 and 2 are handles: CU_STREAM_LEGACY and CU_STREAM_PER_THREAD.
  // NOLINTBEGIN(performance-no-int-to-ptr): as nameOf() made it
  if ((value & 1) == 0 || value < 16) return reinterpret_cast<CUstream>(value);
  return reinterpret_cast<const StreamAlias*>(value - 1)->handle;
  // NOLINTEND(performance-no-int-to-ptr)
}

}  // namespace ebbtide::allocator::cuda
