#include "job/host_share.hpp"

#include <gtest/gtest.h>
#include <sched.h>
#include <unistd.h>

#include <thread>

namespace ebbtide::plugin {
namespace {

cpu_set_t setNow() {
  cpu_set_t set;
  CPU_ZERO(&set);
  EXPECT_EQ(sched_getaffinity(0, sizeof set, &set), 0);
  return set;
}

HostShare boundTo(int processor) {
  HostShare share;
  std::thread([&share, processor] {
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(processor, &set);
    ASSERT_EQ(sched_setaffinity(0, sizeof set, &set), 0);
    share = hostShare();
  }).join();
  return share;
}

TEST(HostShare, HasTheProcessorsThatTheProcessMayRunOn) {
  const cpu_set_t set = setNow();
  const HostShare share = hostShare();
  EXPECT_EQ(share.processors, CPU_COUNT(&set));
  EXPECT_EQ(share.host.find(", processors ") == std::string::npos,
            CPU_COUNT(&set) == sysconf(_SC_NPROCESSORS_ONLN));
}

// What is bound to the same processors shares them; what is bound to others shares none with it.
TEST(HostShare, IsNamedByWhatItIsBoundTo) {
  if (sysconf(_SC_NPROCESSORS_ONLN) < 2) GTEST_SKIP() << "one processor is all there are";
  const cpu_set_t set = setNow();
  HostShare last;
  for (int processor = 0; processor < CPU_SETSIZE; ++processor) {
    if (!CPU_ISSET(processor, &set)) continue;
    const HostShare share = boundTo(processor);
    EXPECT_EQ(share.processors, 1);
    EXPECT_TRUE(share.host.ends_with(", processors " + std::to_string(processor))) << share.host;
    EXPECT_EQ(share.host, boundTo(processor).host);
    EXPECT_NE(share.host, last.host);
    last = share;
  }
}

}  // namespace
}  // namespace ebbtide::plugin
