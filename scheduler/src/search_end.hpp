// When a planner's search must end: at its deadline, or once nobody waits for its result.
#pragma once

#include "deadline.hpp"
#include "ebbtide/scheduler/planner.hpp"

namespace ebbtide::scheduler {

class SearchEnd {
 public:
  SearchEnd() = default;                    // never
  SearchEnd(const PlannerOptions& options)  // whose flag outlives it
      : deadline_(options.deadline), cancelled_(options.cancelled) {}

  bool reached() const {
    return (cancelled_ != nullptr && cancelled_->load(std::memory_order_relaxed)) ||
           isPast(deadline_);
  }

 private:
  Deadline deadline_ = kNoDeadline;
  const std::atomic<bool>* cancelled_ = nullptr;
};

}  // namespace ebbtide::scheduler
