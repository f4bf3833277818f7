// When a search must end: at its deadline, or once nobody waits for its result.
#pragma once

#include <atomic>

#include "base/deadline.hpp"

namespace ebbtide::scheduler {

class SearchEnd {
 public:
  SearchEnd() = default;  // never
  SearchEnd(Deadline deadline) : deadline_(deadline) {}
  // A planner's options, or a placement's. Their flag outlives it.
  template <typename Options>
  requires requires(const Options& options) {
    options.deadline;
    options.cancelled;
  }
  SearchEnd(const Options& options) : deadline_(options.deadline), cancelled_(options.cancelled) {}

  bool reached() const {
    return (cancelled_ != nullptr && cancelled_->load(std::memory_order_relaxed)) ||
           isPast(deadline_);
  }

 private:
  Deadline deadline_ = kNoDeadline;
  const std::atomic<bool>* cancelled_ = nullptr;
};

}  // namespace ebbtide::scheduler
