// StepObserver: passes what the allocator tells on to the log of one step at a time, and to who
// else watches. Torch-free.
//
// A call of the allocator may still reach an observer that was taken from it (setObserver()),
// however late its thread goes on. So the allocator sees this one alone, which lives as long as the
// session; a log is only entered with mutex_ held, and nobody is in it once it has been replaced.
#pragma once

#include <memory>
#include <mutex>

#include "ebbtide/allocator/device_memory.hpp"
#include "ebbtide/allocator/spin_lock.hpp"
#include "record/log/event_log.hpp"

namespace ebbtide::plugin {

class StepObserver final : public allocator::Observer {
 public:
  // The resource must outlive the observer, and is given no other one.
  explicit StepObserver(allocator::DeviceMemory& memory) : memory_(memory) {}

  // nullptr: nobody listens, and the allocator need not call. One thread at a time, both of these.
  void passTo(std::shared_ptr<EventLog> log) {
    memory_.setObserver(log != nullptr || watched_ ? this : nullptr);
    logged_ = log != nullptr;
    std::lock_guard lock(mutex_);
    log_.swap(log);
  }
  // Another one, who is told the same, without a lock of this one's: it may wait for the GIL, which
  // others hold while they allocate. It may be told of a block or two after another took its place.
  void watchBy(std::shared_ptr<allocator::Observer> watcher) {
    memory_.setObserver(watcher != nullptr || logged_ ? this : nullptr);
    watched_ = watcher != nullptr;
    std::lock_guard lock(mutex_);
    watcher_.swap(watcher);
  }

  void onAllocate(const void* block, allocator::Bytes block_bytes) noexcept override {
    std::unique_lock lock(mutex_);
    if (log_ != nullptr) log_->onAllocate(block, block_bytes);
    const std::shared_ptr<allocator::Observer> watcher = watcher_;
    lock.unlock();
    if (watcher != nullptr) watcher->onAllocate(block, block_bytes);
  }
  void onFree(const void* block, allocator::Bytes block_bytes) noexcept override {
    std::unique_lock lock(mutex_);
    if (log_ != nullptr) log_->onFree(block, block_bytes);
    const std::shared_ptr<allocator::Observer> watcher = watcher_;
    lock.unlock();
    if (watcher != nullptr) watcher->onFree(block, block_bytes);
  }

  // The log of that step too, whose own thread may go on with it in a child.
  void lockForFork() {
    mutex_.lock();
    if (log_ != nullptr) log_->lockForFork();
  }
  void unlockAfterFork() {
    if (log_ != nullptr) log_->unlockAfterFork();
    mutex_.unlock();
  }

 private:
  allocator::DeviceMemory& memory_;
  bool logged_ = false, watched_ = false;
  allocator::SpinLock mutex_;
  std::shared_ptr<EventLog> log_;
  std::shared_ptr<allocator::Observer> watcher_;
};

}  // namespace ebbtide::plugin
