// Guard: a lock, and that it is held as a value. A function that is to be called with it held takes
// that value, and the compiler sees to it. Guarded: state that only such a value opens. Torch-free.
//
//   const Held&   the guard stays held all the while
//   Held&         it may be let go of meanwhile: a wait
//
// Thread rule: a Held is of the thread that made it, which makes no second one of its guard.
#pragma once

#include <condition_variable>
#include <mutex>
#include <optional>
#include <utility>

namespace ebbtide::plugin {

// `Of`: what it guards. Tokens of guards of other things are of other types. `Mutex`: another kind
// than the one that can be waited with.
template <typename Of, typename Mutex = std::mutex>
class Guard {
  class Key {
    friend class Guard;
    Key() = default;
  };

 public:
  class Held {
   public:
    Held(Key, std::unique_lock<Mutex> lock) : lock_(std::move(lock)) {}
    Held(const Held&) = delete;  // nor moved: one that is there is held
    Held& operator=(const Held&) = delete;

    // As std::condition_variable has it: held again when it returns.
    template <typename Time, typename Ready>
    bool waitUntil(std::condition_variable& changed, const Time& until, Ready&& ready) {
      return changed.wait_until(lock_, until, std::forward<Ready>(ready));
    }

   private:
    std::unique_lock<Mutex> lock_;
  };

  // Waits for who holds it.
  [[nodiscard]] Held hold() { return {Key(), std::unique_lock(mutex_)}; }
  // Nothing: somebody holds it.
  [[nodiscard]] std::optional<Held> tryHold() {
    std::unique_lock lock(mutex_, std::try_to_lock);
    if (!lock) return std::nullopt;
    return std::optional<Held>(std::in_place, Key(), std::move(lock));
  }

  // Each side of a fork lets go of it. Nobody else takes it without a token.
  void lockForFork() { mutex_.lock(); }
  void unlockAfterFork() { mutex_.unlock(); }

 private:
  Mutex mutex_;
};

// Several may share one guard: what is seen with it held belongs together.
template <typename State, typename Of>
class Guarded {
 public:
  using Held = typename Guard<Of>::Held;

  explicit Guarded(State state = {}) : state_(std::move(state)) {}

  State& with(const Held&) noexcept { return state_; }
  const State& with(const Held&) const noexcept { return state_; }

 private:
  State state_;
};

}  // namespace ebbtide::plugin
