// What the environment says of the emulated GPU: EMULATED_GPU_* (docs/gpu.md has the table).
#pragma once

#include <cstddef>
#include <cstdint>

namespace emulated_gpu {

// Timed: at once, and what asks hears of it by the virtual clock (clock.hpp).
enum class Schedule { kEager, kLazy, kRandom, kTimed };

struct Settings {
  int devices = 1;
  std::size_t device_bytes = std::size_t{2} << 30;
  std::size_t context_bytes = std::size_t{64} << 20;  // a process's context takes it of the device
  Schedule schedule = Schedule::kEager;
  // Mode *clock*: kernels and copies take their time and do nothing. The schedule is *timed*.
  bool clock = false;
  std::uint64_t seed = 1;
  int unready = 3;  // queries of an event that hear "not ready" before its work runs
  std::size_t longest_queue =
      1000;  // launches that may wait on a stream; one more waits for the first
  double host_bytes_per_ns = 20;  // of the virtual link to the host; timed: 0 is the table's
  int hbm_percent = 100;          // of the table's rate, timed
  int host_percent = 100;         // of the processor time of threads that launch, timed
  bool log = false;
  bool poison = true;          // new pages are filled with 0xA5
  bool whole_grid = false;     // our kernels run with every block and thread, large launches too
  bool without_waits = false;  // a stream waits for no event: what tests have to find
  bool order = false;          // what no order covers is reported (order.hpp)
  bool virtual_memory = true;  // else the device says that it has no virtual memory management
  // Faults on demand; 0 is never. Counted from 1, in the process.
  long fail_page = 0;     // this page's creation is refused: out of memory
  long fail_launch = 0;   // this launch is refused
  long trap = 0;          // this launch traps: a sticky error
  long others_every = 0;  // after so many launches other processes take a page more of the device

  bool timed() const { return schedule == Schedule::kTimed; }
};

const Settings& settings();
// Anew: in a process that was forked before it asked for anything, and has other variables.
void readSettings();

// Next number of the seeded sequence that a random schedule takes. Under the device's lock.
std::uint64_t randomNumber();

// To the standard error with EMULATED_GPU_LOG.
[[gnu::format(printf, 1, 2)]] void log(const char* format, ...);

}  // namespace emulated_gpu
