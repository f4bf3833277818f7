#include "failing_allocation.hpp"

#include <atomic>
#include <cstdlib>
#include <new>

namespace {

thread_local int left = 0;  // allocations until one fails; 0: none will
std::atomic<bool> failed = false;

}  // namespace

void* operator new(std::size_t size) {
  if (left > 0 && --left == 0) {
    failed = true;
    throw std::bad_alloc();
  }
  if (void* memory = std::malloc(size == 0 ? 1 : size)) return memory;
  throw std::bad_alloc();
}
// As the library's own does, which a sanitizer replaces by one whose memory is not ours to free.
void* operator new(std::size_t size, const std::nothrow_t&) noexcept {
  try {
    return ::operator new(size);
  } catch (const std::bad_alloc&) {
    return nullptr;
  }
}
void operator delete(void* memory) noexcept {
  std::free(memory);
}
void operator delete(void* memory, std::size_t) noexcept {
  std::free(memory);
}

namespace ebbtide::metrics::test {

void failAllocation(int number) noexcept {
  failed = false;
  left = number;
}

bool hasFailed() noexcept {
  return failed;
}

bool endFailing() noexcept {
  left = 0;
  return failed;
}

}  // namespace ebbtide::metrics::test
