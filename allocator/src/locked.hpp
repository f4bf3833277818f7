// Locked: state behind a SpinLock. A Held holds the lock while it lives, and is the only way to the
// state. A function that needs the lock held takes a Held, or a part of the state.
//
// Thread rule: any thread; a thread makes no second Held of the same state.
#pragma once

#include <utility>

#include "ebbtide/allocator/spin_lock.hpp"

namespace ebbtide::allocator {

template <typename State>
class Locked {
  template <typename Seen>
  class Hold {
   public:
    ~Hold() { lock_.unlock(); }
    Hold(const Hold&) = delete;
    Hold& operator=(const Hold&) = delete;

    Seen* operator->() const noexcept { return &state_; }

   private:
    friend Locked;
    Hold(SpinLock& lock, Seen& state) noexcept : lock_(lock), state_(state) { lock_.lock(); }

    SpinLock& lock_;
    Seen& state_;
  };

 public:
  using Held = Hold<State>;
  using HeldConst = Hold<const State>;

  template <typename... Arguments>
  explicit Locked(Arguments&&... arguments) : state_(std::forward<Arguments>(arguments)...) {}

  [[nodiscard]] Held hold() noexcept { return Held(lock_, state_); }
  [[nodiscard]] HeldConst hold() const noexcept { return HeldConst(lock_, state_); }

  // Each side of a fork lets go of it. Nobody else takes it without a Held.
  void lockForFork() const noexcept { lock_.lock(); }
  void unlockAfterFork() const noexcept { lock_.unlock(); }

 private:
  alignas(64) mutable SpinLock lock_;
  State state_;
};

}  // namespace ebbtide::allocator
