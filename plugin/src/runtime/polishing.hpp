// Polishing: the search for a better plan than the one in force, on a thread of its own, which has
// the lowest priority. Meanwhile the planning thread plans other programs. Torch-free.
//
//   begin(search) ─► search(), on its thread ─► isOver() ─► take(): what it found
//
// Its thread takes no lock that other threads take, while it searches and when it ends. So a
// training thread never waits for it, and a forked child, which lacks the thread, misses nothing.
// Whoever waits for the result therefore looks every kLook. The thread stays until the result is
// taken, so from outside its end shows that nothing is left to come.
//
// Thread rule: called by the planning thread, and by whoever ends that thread.
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
  ~Polishing() { join(); }  // the search was told to end
  Polishing(const Polishing&) = delete;
  Polishing& operator=(const Polishing&) = delete;

  // Only while no search is under way.
  void begin(Search search);
  bool isUnderWay() const { return thread_.joinable(); }  // begun, and not taken
  bool isOver() const { return isUnderWay() && over_.load(std::memory_order_acquire); }
  // Throws what the search threw.
  Planned take();
  void join();  // its result is lost

 private:
  std::thread thread_;
  std::atomic<bool> over_{false}, taken_{false};
  // Owned by the search until it is over.
  Planned found_;
  std::exception_ptr error_;
};

}  // namespace ebbtide::plugin
