// When a search must end: at its deadline, or once nobody waits for its result.
#pragma once

#include "deadline.hpp"
#include "ebbtide/scheduler/placement.hpp"
#include "ebbtide/scheduler/planner.hpp"

namespace ebbtide::scheduler {

class SearchEnd {
 public:
  SearchEnd() = default;  // never
  SearchEnd(Deadline deadline) : deadline_(deadline) {}
  // Whose flag outlives it.
  SearchEnd(const PlannerOptions& options)
      : deadline_(options.deadline), cancelled_(options.cancelled) {}
  SearchEnd(const PlacementOptions& options)
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
