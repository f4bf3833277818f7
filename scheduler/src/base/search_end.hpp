// When a search must end: at its deadline, when its pace is over, or once nobody waits for it.
#pragma once

#include <atomic>
#include <concepts>

#include "base/deadline.hpp"
#include "ebbtide/scheduler/search_pace.hpp"

namespace ebbtide::scheduler {

// A planner's options, or a placement's.
template <typename Options>
concept EndsSearch = requires(const Options& options) {
  { options.deadline } -> std::same_as<const Deadline&>;
  { options.cancelled } -> std::same_as<const std::atomic<bool>* const&>;
};

class SearchEnd {
 public:
  SearchEnd() = default;  // never
  SearchEnd(Deadline deadline) : deadline_(deadline) {}
  // The options' flag and pace outlive it.
  template <EndsSearch Options>
  SearchEnd(const Options& options) : deadline_(options.deadline), cancelled_(options.cancelled) {
    if constexpr (requires { options.pace; }) pace_ = options.pace;
  }

  bool reached() const {
    return (cancelled_ != nullptr && cancelled_->load(std::memory_order_relaxed)) ||
           isPast(deadline_) || (pace_ != nullptr && pace_->isOver());
  }

 private:
  Deadline deadline_ = kNoDeadline;
  const std::atomic<bool>* cancelled_ = nullptr;
  SearchPace* pace_ = nullptr;
};

}  // namespace ebbtide::scheduler
