// Polishing: the search for a better plan than the one in force, on a thread of its own, which has
// the lowest priority. Meanwhile the planning thread plans other programs. Torch-free.
//
//   begin(search) ─► search(), on its thread ─► isOver() ─► take(): what it found
//
// Its thread takes no lock that others take, neither while it searches nor to tell that it is over:
// a training thread never waits for it, and a forked child, which does not have it, misses nothing.
// So whoever waits for what it finds looks every kLook. The thread is there until that is taken,
// which shows from outside that nothing is left to come.
//
// Thread rule: of the planning thread, and of whoever ends that one.
#pragma once

#include <atomic>
#include <chrono>
#include <exception>
#include <functional>
#include <thread>

#include "plan/plan_search.hpp"

namespace ebbtide::plugin {

class Polishing {
 public:
  using Search = std::function<Planned()>;
  static constexpr std::chrono::milliseconds kLook{20};

  Polishing() = default;
  ~Polishing() { join(); }  // it was told to end
  Polishing(const Polishing&) = delete;
  Polishing& operator=(const Polishing&) = delete;

  // None is under way.
  void begin(Search search);
  bool isUnderWay() const { return thread_.joinable(); }  // begun, and not taken
  bool isOver() const { return isUnderWay() && over_.load(std::memory_order_acquire); }
  // Throws what the search threw.
  Planned take();
  void join();  // what it found is nobody's

 private:
  std::thread thread_;
  std::atomic<bool> over_{false}, taken_{false};
  // The search's until it is over.
  Planned found_;
  std::exception_ptr error_;
};

}  // namespace ebbtide::plugin
