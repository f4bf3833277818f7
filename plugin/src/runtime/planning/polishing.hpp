// Polishing: the search for a better plan than the one in force, on a thread of its own, which has
// the lowest priority. Meanwhile the planning thread plans other programs. Torch-free.
//
//   begin(search) ─► search(), on its thread ─► isOver() ─► take(): what it found
//
// Its thread takes no lock that other threads take, while it searches and when it ends. So a
// training thread never waits for it, and a forked child, which lacks the thread, misses nothing.
// Whoever waits for the result therefore looks every kLook. The thread stays until the result is
// taken, so from outside its end shows that nothing is left to come. Nobody waits for that end: on
// a busy processor a thread of the lowest priority may not run for a second.
//
// Thread rule: called by the planning thread, and by whoever ends that thread.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <thread>

#include "plan/plan_search.hpp"

namespace ebbtide::plugin {

class Polishing {
 public:
  using Search = std::function<Planned()>;
  static constexpr std::chrono::milliseconds kLook{20};

  Polishing() = default;
  ~Polishing();  // the search was told to end, and is waited for
  Polishing(const Polishing&) = delete;
  Polishing& operator=(const Polishing&) = delete;

  // Only while no search is under way.
  void begin(Search search);
  bool isUnderWay() const { return run_ != nullptr; }  // begun, and not taken
  bool isOver() const;
  // Waits for the search, but not for longer. False: it goes on, which may be while the process
  // ends: planners need no statics, and what it uses is leaked.
  bool endsWithin(std::chrono::milliseconds most) const;
  // Waits for the search, and throws what that threw.
  Planned take();

 private:
  struct Run;

  std::shared_ptr<Run> run_;
  std::thread thread_;
};

}  // namespace ebbtide::plugin
