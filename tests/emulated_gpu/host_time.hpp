// The host's virtual time, of the process: processor time of its threads outside of the emulator,
// what their calls cost, and what they wait for the device. Threads take turns (a script, then
// autograd's thread), so one clock has them all. A thread's processor time counts from its first
// launch on: planners and loaders run beside. Any thread; a lock of its own, no other within it.
#pragma once

#include <cstdint>

#include "time_table.hpp"

namespace emulated_gpu {

// All in nanoseconds since the process began, or numbers.
struct HostTimes {
  Nanoseconds now = 0;
  Nanoseconds processor = 0,
              calls = 0;  // parts of it: scaled by EMULATED_GPU_HOST_PERCENT; the table's
  Nanoseconds waited = 0, stalled = 0;  // for the device; for room in a stream's queue
  std::uint64_t waits = 0;              // those that did not find the work done
  std::uint64_t launches = 0, copies = 0, page_calls = 0;
};

class HostTime {
 public:
  static HostTime& get();

  HostTimes times();
  Nanoseconds now();
  void spend(Nanoseconds call);
  // Until the device is there: a wait, or a full queue.
  void waitUntil(Nanoseconds at);
  void stallUntil(Nanoseconds at);
  void countLaunch();  // its thread's processor time counts from now on
  void countCopy();
  void countPages(std::uint64_t pages);

  // Of this thread: its processor time is the emulator's own from enter() to leave(). They nest.
  void enter();
  void leave();
  // Outside again, for what torch and Ebbtide do for an operator (its results' memory). What it
  // returns is given back to `inside`.
  int outside();
  void inside(int depth);

 private:
  void takeProcessorTime();
};

// As long as it is alive this thread is in the emulator.
class InEmulator {
 public:
  InEmulator() { HostTime::get().enter(); }
  ~InEmulator() { HostTime::get().leave(); }
  InEmulator(const InEmulator&) = delete;
  InEmulator& operator=(const InEmulator&) = delete;
};

}  // namespace emulated_gpu
