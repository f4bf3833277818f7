#include "host_time.hpp"

#include <time.h>

#include <algorithm>
#include <chrono>
#include <mutex>

#include "settings.hpp"

namespace emulated_gpu {
namespace {

struct ThisThread {
  int depth = 0;         // in the emulator
  bool counts = false;   // it has launched
  Nanoseconds last = 0;  // its processor time when it was last taken
};
thread_local ThisThread this_thread;

std::mutex mutex;
HostTimes all;

Nanoseconds processorTime() {
  timespec busy{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &busy);
  return static_cast<double>(busy.tv_sec) * 1e9 + static_cast<double>(busy.tv_nsec);
}

bool counted() {
  return settings().timed() && settings().host_percent > 0;
}

}  // namespace

HostTime& HostTime::get() {
  static auto* const only = new HostTime;
  return *only;
}

// What the thread has worked outside since it was last taken.
void HostTime::takeProcessorTime() {
  if (!counted() || !this_thread.counts || this_thread.depth > 0) return;
  const Nanoseconds busy = processorTime();
  const Nanoseconds passed = (busy - this_thread.last) * settings().host_percent / 100;
  this_thread.last = busy;
  const std::lock_guard lock(mutex);
  all.processor += passed;
  all.now += passed;
}

HostTimes HostTime::times() {
  takeProcessorTime();
  const std::lock_guard lock(mutex);
  return all;
}

Nanoseconds HostTime::now() {
  takeProcessorTime();
  const std::lock_guard lock(mutex);
  return all.now;
}

void HostTime::spend(Nanoseconds call) {
  const std::lock_guard lock(mutex);
  all.calls += call;
  all.now += call;
}

void HostTime::waitUntil(Nanoseconds at) {
  const std::lock_guard lock(mutex);
  if (at <= all.now) return;
  const Nanoseconds until = at + timeTable().wake;
  ++all.waits;
  all.waited += until - all.now;
  all.now = until;
}

void HostTime::stallUntil(Nanoseconds at) {
  const std::lock_guard lock(mutex);
  if (at <= all.now) return;
  all.stalled += at - all.now;
  all.now = at;
}

void HostTime::countLaunch() {
  if (counted() && !this_thread.counts) {
    this_thread.counts = true;
    this_thread.last = processorTime();
  }
  const std::lock_guard lock(mutex);
  ++all.launches;
}

void HostTime::countCopy() {
  const std::lock_guard lock(mutex);
  ++all.copies;
}

void HostTime::countPages(std::uint64_t pages) {
  const std::lock_guard lock(mutex);
  all.page_calls += pages;
}

void HostTime::enter() {
  takeProcessorTime();
  ++this_thread.depth;
}

void HostTime::leave() {
  if (--this_thread.depth == 0 && counted() && this_thread.counts) {
    this_thread.last = processorTime();
  }
}

int HostTime::outside() {
  const int depth = this_thread.depth;
  this_thread.depth = 0;
  if (counted() && this_thread.counts) this_thread.last = processorTime();
  return depth;
}

void HostTime::inside(int depth) {
  takeProcessorTime();
  this_thread.depth = depth;
}

}  // namespace emulated_gpu
