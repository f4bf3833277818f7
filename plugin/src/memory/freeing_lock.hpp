// FreeingLock: the locks of what owns storages, held as values. A function that is to be called
// with it held takes such a value, and one that gives storages up takes the value that frees them
// after the lock: a free may call whoever waits for it. Torch-free.
//
//   const Held&      it is held
//   const Freeing&   and what is given up meanwhile is freed when it is let go of
//
//   Restoring ──── Freeing ── Freeing ──── its end: what waited is freed, too
//
// Thread rule: a Held is of the thread that made it, which makes no second one. Restoring, one
// thread at a time, comes before it.
#pragma once

#include <atomic>
#include <functional>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

namespace ebbtide::plugin {

// `Storage`: a reference, that frees with the last one; false by default.
template <typename Storage, typename Mutex = std::mutex>
class FreeingLock {
 public:
  // `waits`: of what its thread gives up while it restores: is it not to be freed before the end?
  explicit FreeingLock(std::function<bool(const Storage&)> waits) : waits_(std::move(waits)) {}
  FreeingLock(const FreeingLock&) = delete;
  FreeingLock& operator=(const FreeingLock&) = delete;

  class Held {
   public:
    explicit Held(FreeingLock& of) : of_(of), lock_(of.mutex_) {}
    Held(const Held&) = delete;
    Held& operator=(const Held&) = delete;

   protected:
    FreeingLock& of_;
    std::unique_lock<Mutex> lock_;
  };

  class Freeing : public Held {
   public:
    explicit Freeing(FreeingLock& of) : Held(of) {}
    ~Freeing() {
      FreeingLock& of = this->of_;
      if (!of.first_ && of.others_.empty()) return;
      std::vector<Storage> others = std::exchange(of.others_, {});
      Storage first = std::exchange(of.first_, Storage());  // the first to be freed
      if (of.restoresHere()) of.keepWaiting(first, others);
      this->lock_.unlock();
    }
    void giveUp(Storage storage) const {  // none: nothing
      if (!storage) return;
      if (this->of_.first_) {
        this->of_.others_.push_back(std::move(storage));
      } else {
        this->of_.first_ = std::move(storage);
      }
    }
  };

  // What waits is freed after it.
  class Restoring {
   public:
    explicit Restoring(FreeingLock& of) : of_(of), lock_(of.restore_mutex_) { begin(); }
    Restoring(FreeingLock& of, std::try_to_lock_t)
        : of_(of), lock_(of.restore_mutex_, std::try_to_lock) {
      if (lock_) begin();
    }
    ~Restoring() {
      if (!lock_) return;
      const bool any_waits = std::exchange(of_.any_waits_, false);
      of_.restoring_ = std::thread::id();
      lock_.unlock();
      if (any_waits) of_.freeWaiting();
    }
    bool held() const { return lock_.owns_lock(); }
    Restoring(const Restoring&) = delete;
    Restoring& operator=(const Restoring&) = delete;

   private:
    void begin() { of_.restoring_ = std::this_thread::get_id(); }

    FreeingLock& of_;
    std::unique_lock<Mutex> lock_;
  };
  bool restoresHere() const noexcept { return restoring_ == std::this_thread::get_id(); }

  // Each side of a fork lets go of it. Nobody else takes it without a token.
  void lockForFork() { mutex_.lock(); }
  void unlockAfterFork() { mutex_.unlock(); }

 private:
  void keepWaiting(Storage& first, std::vector<Storage>& others) {
    if (first && waits_(first)) others_.push_back(std::exchange(first, Storage()));
    std::vector<Storage> now;
    for (Storage& storage : others) (waits_(storage) ? others_ : now).push_back(std::move(storage));
    others = std::move(now);
    any_waits_ = any_waits_ || !others_.empty();
  }
  void freeWaiting() { const Freeing freeing(*this); }

  const std::function<bool(const Storage&)> waits_;
  Mutex mutex_;
  Mutex restore_mutex_;
  std::atomic<std::thread::id> restoring_{std::thread::id()};  // holds restore_mutex_
  bool any_waits_ = false;  // of what restoring_ gave up; that thread's alone
  // To be freed after mutex_. Most often it is one, or none.
  Storage first_ = Storage();
  std::vector<Storage> others_;
};

}  // namespace ebbtide::plugin
