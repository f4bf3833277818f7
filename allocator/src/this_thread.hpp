// Names the thread that runs, for as long as it does. One instruction, unlike a thread_local of a
// library that is loaded late.
#pragma once

namespace ebbtide::allocator {

inline const void* thisThread() noexcept {
  return __builtin_thread_pointer();
}

}  // namespace ebbtide::allocator
