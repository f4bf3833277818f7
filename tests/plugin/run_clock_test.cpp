// In a process whose own functions tell the time, as under an emulated GPU: nothing that a plan or
// a report reads comes from another clock. A program of its own, for the functions are the
// process's.
#include "base/run_clock.hpp"

#include <gtest/gtest.h>

#include "base/elapsed.hpp"
#include "base/system_time.hpp"
#include "device/host_clock.hpp"
#include "memory/trained_memory.hpp"
#include "record/log/event_log.hpp"

namespace {
std::int64_t virtual_ns = 0, busy_ns = 0;
}

std::int64_t ebbtide_run_clock_ns() noexcept {
  return virtual_ns;
}
std::int64_t ebbtide_run_clock_busy_ns() noexcept {
  return busy_ns;
}

namespace ebbtide::plugin {
namespace {

class RunClocks : public testing::Test {
 protected:
  RunClocks() {
    virtual_ns = 1'000;
    busy_ns = 100;
  }
};

// Exactly 250 ns later, however long the test takes.
TEST_F(RunClocks, AreTheProcesssOwn) {
  const Clock::time_point start = Clock::now();
  HostClock host;
  const DeviceClock::Mark begin = host.mark();
  virtual_ns += 250;
  EXPECT_EQ(nanosecondsSince(start), 250);
  EXPECT_EQ(host.nanosecondsBetween(begin, host.mark()), 250);
  EXPECT_EQ(steadyNanoseconds(), 1'250);
}

// The log begins at 1,000: what is allocated at 1,070 is 70 after it, the step ends at 1,100. The
// message is sent when the thread has been busy for 40 of the log's nanoseconds.
TEST_F(RunClocks, AreThoseOfARecordedStep) {
  EventLog log(0);
  virtual_ns += 70;
  int block = 0;
  log.onAllocate(&block, 64);
  busy_ns += 40;
  log.addMessage({.message = {.peer = 1, .bytes = 8}, .group = "0", .rank = 0, .size = 2},
                 ThreadMoment::now());
  virtual_ns += 30;
  scheduler::Trace trace;
  log.moveInto(trace);
  EXPECT_EQ(trace.duration_ns, 100);
  ASSERT_EQ(trace.events.size(), 2u);
  EXPECT_EQ(trace.events[0].at_ns, 70);
  EXPECT_EQ(trace.events[1].at_ns, 70);
  ASSERT_EQ(trace.messages.size(), 1u);
  EXPECT_EQ(trace.messages[0].busy_ns, 40);
}

// A second after the write that failed, and no sooner.
TEST_F(RunClocks, TellWhenAHostThatRefusedAWriteIsAskedAgain) {
  CurrentConfig config;
  TrainedMemory memory(config);
  EXPECT_FALSE(memory.hostRefuses());
  EXPECT_TRUE(memory.stopOffload());
  virtual_ns += 999'999'999;
  EXPECT_TRUE(memory.hostRefuses());
  ++virtual_ns;
  EXPECT_FALSE(memory.hostRefuses());
  EXPECT_FALSE(memory.stopOffload());  // it was stopped before
  EXPECT_TRUE(memory.hostRefuses());
}

}  // namespace
}  // namespace ebbtide::plugin
