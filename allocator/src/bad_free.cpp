#include "bad_free.hpp"

#include <cstdio>
#include <cstdlib>

namespace ebbtide::allocator {

void dieOfBadFree(const void* pointer, const char* reason) noexcept {
  std::fprintf(stderr, "ebbtide: deallocate(%p): %s\n", pointer, reason);
  std::abort();
}

}  // namespace ebbtide::allocator
