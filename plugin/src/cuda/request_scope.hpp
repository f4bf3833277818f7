// RequestScope: whose request this thread is serving, for pages that are mapped meanwhile.
#pragma once

#include "block_table.hpp"

namespace ebbtide::plugin::cuda {

class RequestScope {
 public:
  explicit RequestScope(const Owner& owner) noexcept : owner_(owner), outer_(current) {
    current = this;
  }
  ~RequestScope() { current = outer_; }
  RequestScope(const RequestScope&) = delete;
  RequestScope& operator=(const RequestScope&) = delete;

  // Nobody's where none is alive: a plan's arena.
  static Owner owner() noexcept { return current == nullptr ? Owner{} : current->owner_; }

 private:
  inline static thread_local RequestScope* current = nullptr;
  const Owner& owner_;
  RequestScope* const outer_;
};

}  // namespace ebbtide::plugin::cuda
