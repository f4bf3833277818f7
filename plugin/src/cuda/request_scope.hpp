// RequestScope: whose request this thread is serving, and where in the program, for pages that are
// mapped meanwhile.
#pragma once

#include "cuda/block_table.hpp"

namespace ebbtide::plugin::cuda {

class RequestScope {
 public:
  using Context = std::shared_ptr<c10::GatheredContext>;

  RequestScope(const Owner& owner, const Context& context) noexcept
      : owner_(owner), context_(context), outer_(current) {
    current = this;
  }
  ~RequestScope() { current = outer_; }
  RequestScope(const RequestScope&) = delete;
  RequestScope& operator=(const RequestScope&) = delete;

  // Nobody's where none is alive: a plan's arena.
  static Owner owner() noexcept { return current == nullptr ? Owner{} : current->owner_; }
  static Context context() noexcept { return current == nullptr ? nullptr : current->context_; }

 private:
  inline static thread_local RequestScope* current = nullptr;
  const Owner& owner_;
  const Context& context_;
  RequestScope* const outer_;
};

}  // namespace ebbtide::plugin::cuda
