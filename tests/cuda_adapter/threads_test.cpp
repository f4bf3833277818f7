// Several threads at once, each on a stream of its own.
#include <sys/wait.h>
#include <unistd.h>

#include <mutex>
#include <random>
#include <thread>

#include "host_devices.hpp"

namespace ebbtide::plugin::cuda::test {
namespace {

TEST_F(CudaAllocatorTest, ThreadsDoNotSeeEachOthersBlocks) {
  make(64 * kMiB);
  give(take(512));  // opens the device
  std::atomic<int> wrong{0}, refused{0};
  const auto work = [&](unsigned number) {
    std::mt19937 random(number);
    std::vector<std::pair<unsigned char*, std::size_t>> live;
    const auto check = [&](std::size_t at) {
      const auto [block, bytes] = live[at];
      if (block[0] != number || block[bytes - 1] != number) ++wrong;
      give(block);
      live[at] = live.back();
      live.pop_back();
    };
    for (int step = 0; step < 2000; ++step) {
      const std::size_t bytes = 1 + random() % static_cast<unsigned>(step % 5 == 0 ? kMiB : kKiB);
      try {
        auto* block =
            static_cast<unsigned char*>(allocator_->raw_alloc_with_stream(bytes, stream(number)));
        block[0] = block[bytes - 1] = static_cast<unsigned char>(number);
        live.emplace_back(block, bytes);
      } catch (const c10::OutOfMemoryError&) {
        ++refused;
      }
      if (step % 64 == 0) allocator_->emptyCache({0, 0});
      if (step % 64 == 32) (void)allocator_->snapshot({0, 0}, true);
      while (live.size() > 20) check(random() % live.size());
    }
    while (!live.empty()) check(live.size() - 1);
  };
  std::vector<std::thread> threads;
  for (unsigned number = 1; number <= 4; ++number) threads.emplace_back(work, number);
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
  // 4 threads hold 21 blocks each, a fifth of them of 0.5 MiB on average: some 9 MiB of 64.
  EXPECT_EQ(refused, 0);
  const auto now = stats();
  EXPECT_EQ(all(now.allocation).current, 0);
  EXPECT_EQ(all(now.active_bytes).current, 0);
  EXPECT_LE(all(now.reserved_bytes).peak, 64 * kMiB);
  allocator_->emptyCache({0, 0});
  EXPECT_EQ(all(stats().reserved_bytes).current, 0);
  EXPECT_EQ(all(stats().segment).current, 0);
}

// A worker of a data loader inherits tensors; another thread is in the allocator when it is forked.
TEST_F(CudaAllocatorTest, AForkedChildLeavesItsParentsBlocksAlone) {
  std::mutex inside;
  std::unique_lock busy(inside);
  c10::DataPtr block = allocator_->allocate(static_cast<std::size_t>(kMiB));
  std::atomic<bool> entered{false};
  allocator_->attachAllocatorTraceTracker([&](const TraceEntry&) {
    entered = true;
    const std::lock_guard wait(inside);  // the device's lock is held
  });
  std::thread other([this] { give(take(512)); });
  while (!entered) std::this_thread::yield();
  const pid_t child = ::fork();
  if (child == 0) {
    ::alarm(60);  // it hangs otherwise
    block.clear();
    ::_exit(0);
  }
  busy.unlock();
  other.join();
  int status = -1;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  block.clear();
  EXPECT_EQ(all(stats().allocation).current, 0);
}

}  // namespace
}  // namespace ebbtide::plugin::cuda::test
