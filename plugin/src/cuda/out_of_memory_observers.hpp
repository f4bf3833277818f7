// OutOfMemoryObservers: who wants to know when a request fails; all devices' together.
//
// Thread rule: any thread.
#pragma once

#include <c10/cuda/CUDACachingAllocator.h>

#include <mutex>
#include <utility>
#include <vector>

namespace ebbtide::plugin::cuda {

class OutOfMemoryObservers {
 public:
  using Observer = c10::cuda::CUDACachingAllocator::OutOfMemoryObserver;

  void add(Observer observer) {
    const std::lock_guard lock(mutex_);
    observers_.push_back(std::move(observer));
  }
  // No lock is held while they run.
  std::vector<Observer> copy() const {
    const std::lock_guard lock(mutex_);
    return observers_;
  }

 private:
  mutable std::mutex mutex_;
  std::vector<Observer> observers_;
};

}  // namespace ebbtide::plugin::cuda
