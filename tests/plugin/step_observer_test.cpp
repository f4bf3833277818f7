#include "memory/step_observer.hpp"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <memory>
#include <thread>

#include "ebbtide/allocator/host_address_space.hpp"

namespace ebbtide::plugin {
namespace {

// Another thread allocates all the while, so that it is in the log when the process forks. The
// child goes on with the step.
TEST(StepObserverTest, AChildFindsTheLogFree) {
  allocator::DeviceMemory memory(allocator::makeHostAddressSpace(), allocator::makeHostEvents(),
                                 {.reserve_bytes = allocator::Bytes{1} << 30});
  StepObserver observer(memory);
  const auto log = std::make_shared<EventLog>(0);
  observer.passTo(log);
  std::atomic<bool> stop{false};
  std::thread other([&] {
    int block = 0;
    while (!stop) {
      observer.onAllocate(&block, 64);
      observer.onFree(&block, 64);
    }
  });
  int failed = 0;
  for (int round = 0; round < 50 && failed == 0; ++round) {
    observer.lockForFork();
    const pid_t child = ::fork();
    observer.unlockAfterFork();
    if (child == 0) {
      ::alarm(60);  // rather than hang
      log->add(scheduler::TraceEvent::Kind::kRelease, 0);
      observer.passTo(nullptr);
      ::_exit(0);
    }
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    if (status != 0) ++failed;
  }
  stop = true;
  other.join();
  EXPECT_EQ(failed, 0);
}

struct Counting final : allocator::Observer {
  void onAllocate(const void*, allocator::Bytes) noexcept override { ++allocated; }
  void onFree(const void*, allocator::Bytes) noexcept override { ++freed; }
  int allocated = 0, freed = 0;
};

// Whoever comes and goes, the other one is told all the same.
TEST(StepObserverTest, AWatcherIsToldBesideTheLog) {
  allocator::DeviceMemory memory(allocator::makeHostAddressSpace(), allocator::makeHostEvents(),
                                 {.reserve_bytes = allocator::Bytes{1} << 30});
  StepObserver observer(memory);
  const auto watcher = std::make_shared<Counting>();
  const auto log = std::make_shared<EventLog>(0);
  const auto block = [&memory] {
    memory.deallocate(memory.allocate(64, allocator::Stream::kDefault));
  };
  observer.watchBy(watcher);
  block();  // 1: no log yet
  observer.passTo(log);
  block();  // 2: both
  observer.passTo(nullptr);
  block();  // 3: the log has gone
  observer.passTo(log);
  observer.watchBy(nullptr);
  block();  // the log alone
  EXPECT_EQ(watcher->allocated, 3);
  EXPECT_EQ(watcher->freed, 3);
  observer.passTo(nullptr);
  scheduler::Trace trace;
  log->moveInto(trace);
  EXPECT_EQ(trace.blocks.size(), 2u);
}

}  // namespace
}  // namespace ebbtide::plugin
