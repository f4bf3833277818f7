#include "base/first_of_forks.hpp"

#include <sys/mman.h>

#include <new>

namespace ebbtide::plugin {

static_assert(std::atomic<bool>::is_always_lock_free);  // else not one between processes

FirstOfForks::FirstOfForks() noexcept : taken_(&own_) {
  void* const page = ::mmap(nullptr, sizeof(std::atomic<bool>), PROT_READ | PROT_WRITE,
                            MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (page != MAP_FAILED) taken_ = new (page) std::atomic<bool>(false);
}

FirstOfForks::~FirstOfForks() {
  if (taken_ != &own_) ::munmap(taken_, sizeof(std::atomic<bool>));
}

bool FirstOfForks::take() noexcept {
  return !taken_->exchange(true);
}

}  // namespace ebbtide::plugin
