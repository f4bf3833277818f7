// Bad frees, fork, and a system that is really out of memory.
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstring>
#include <fstream>
#include <functional>
#include <memory>
#include <random>
#include <stdexcept>
#include <thread>
#include <vector>

#include "spy_backend.hpp"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define EBBTIDE_TEST_SANITIZED 1
#else
#define EBBTIDE_TEST_SANITIZED 0
#endif

namespace ebbtide::allocator::test {
namespace {

// Runs the check in a forked child; true when it returned true there. A hanging child is ended by
// alarm().
bool holdsInChild(const std::function<bool()>& check) {
  const pid_t child = ::fork();
  if (child == 0) {
    ::alarm(60);
    ::_exit(check() ? 0 : 1);
  }
  int status = 0;
  if (child < 0 || ::waitpid(child, &status, 0) != child) return false;
  return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

// From now on the process may map this much more than it has mapped already.
bool limitAddressSpace(Bytes more_bytes) {
  Bytes pages = 0;
  std::ifstream("/proc/self/statm") >> pages;
  const auto limit = static_cast<rlim_t>(pages * ::sysconf(_SC_PAGESIZE) + more_bytes);
  const rlimit limits{limit, limit};
  return pages > 0 && ::setrlimit(RLIMIT_AS, &limits) == 0;
}

TEST(BadFreeDeathTest, ADoubleFreeAborts) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  CachingResource resource(makeHostBackend());
  for (const std::size_t bytes : {std::size_t{100}, std::size_t{1} << 20}) {
    void* block = resource.allocate(bytes);
    resource.deallocate(block);
    EXPECT_DEATH(resource.deallocate(block), "ebbtide: deallocate.*double free");
  }
}

TEST(BadFreeDeathTest, AForeignPointerAborts) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  CachingResource resource(makeHostBackend());
  alignas(kAlignment) static char foreign[4 * kAlignment] = {};
  EXPECT_DEATH(resource.deallocate(foreign + kAlignment), "not a block of this allocator");
  EXPECT_DEATH(resource.deallocate(foreign + kAlignment + 8), "not a block of this allocator");
  auto* block = static_cast<char*>(resource.allocate(1000));
  EXPECT_DEATH(resource.deallocate(block + 2 * kAlignment), "not a block of this allocator");
  // A copied header is no block either.
  std::memcpy(foreign, block - kHeader, kHeader);
  EXPECT_DEATH(resource.deallocate(foreign + kHeader), "not a block of this allocator");
  resource.deallocate(block);
}

TEST(BadFreeDeathTest, AnOverwrittenHeaderAborts) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  CachingResource resource(makeHostBackend());
  auto* block = static_cast<char*>(resource.allocate(1000));
  EXPECT_DEATH(
      {
        std::memset(block - kHeader, 0, kHeader);
        resource.deallocate(block);
      },
      "its header was overwritten");
  resource.deallocate(block);
}

class OddPagesBackend final : public Backend {
 public:
  Bytes pageBytes() const noexcept override { return 3 * 4096; }
  void* map(Bytes) noexcept override { return nullptr; }
  void unmap(void*, Bytes) noexcept override {}
  void* gather(std::span<const PageRange>, Bytes) noexcept override { return nullptr; }
};

TEST(ProcessTest, PagesThatDoNotDivideTheSystemsAreRejected) {
  EXPECT_THROW(CachingResource(std::make_unique<OddPagesBackend>()), std::invalid_argument);
}

TEST(ProcessTest, AnAddressSpaceLimitIsOutOfMemoryAndNotTheEnd) {
  if (EBBTIDE_TEST_SANITIZED) GTEST_SKIP() << "a sanitizer needs the address space";
  EXPECT_TRUE(holdsInChild([] {
    CachingResource resource(makeHostBackend());
    if (!limitAddressSpace(512 * kMiB)) return false;
    if (resource.allocate(std::size_t{1} << 30) != nullptr) return false;
    // Half the limit is cached; the other size fits only once that went back.
    resource.deallocate(resource.allocate(256U << 20));
    void* block = resource.allocate(300U << 20);
    if (block == nullptr) return false;
    static_cast<char*>(block)[(300U << 20) - 1] = 1;
    const Statistics full = resource.statistics();
    resource.deallocate(block);
    resource.releaseCached();
    const Statistics empty = resource.statistics();
    return full.mapped_bytes == CachingResource::blockBytesFor(300U << 20) &&
           empty.mapped_bytes == 0;
  }));
}

TEST(ProcessTest, TheSmallestBlocksAlsoRunOutCleanly) {
  if (EBBTIDE_TEST_SANITIZED) GTEST_SKIP() << "a sanitizer needs the address space";
  EXPECT_TRUE(holdsInChild([] {
    CachingResource resource(makeHostBackend());
    if (!limitAddressSpace(256 * kMiB)) return false;
    void* last = nullptr;
    int blocks = 0;
    while (void* block = resource.allocate(32000)) {
      *static_cast<void**>(block) = last;
      last = block;
      ++blocks;
    }
    const Statistics full = resource.statistics();
    for (int i = 0; i < blocks; ++i) {
      void* next = *static_cast<void**>(last);
      resource.deallocate(last);
      last = next;
    }
    // 32064 bytes take slots of 32 KiB. At least half the limit was usable.
    return blocks > 4096 && full.allocated_bytes == blocks * 32 * kKiB &&
           resource.statistics().allocated_bytes == 0 && resource.allocate(32000) != nullptr;
  }));
}

// The fork happens while another thread maps 8 MiB: the parent gets them, the child never will.
TEST(ProcessTest, TheChildsLedgerForgetsWhatOthersWereMapping) {
  SpiedResource spied;
  std::atomic<bool> mapping{false};
  std::atomic<bool> go_on{false};
  spied.log->on_map = [&] {
    mapping = true;
    while (!go_on) std::this_thread::yield();
  };
  void* block = nullptr;
  std::thread thread([&] { block = spied->allocate(requestFor(8 * kMiB)); });
  while (!mapping) std::this_thread::yield();
  EXPECT_EQ(spied->statistics().mapped_bytes, 8 * kMiB);
  spied->lockForFork();
  const pid_t child = ::fork();
  spied->unlockAfterFork();
  if (child == 0) ::_exit(spied->statistics().mapped_bytes == 0 ? 0 : 1);
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
  EXPECT_EQ(spied->statistics().mapped_bytes, 8 * kMiB);
  go_on = true;
  thread.join();
  spied->deallocate(block);
}

// Forks again and again while four threads allocate. The child finds the lock free, its own blocks
// intact and a ledger without what other threads had in flight.
TEST(ProcessTest, TheChildOfABusyParentCanAllocate) {
  CachingResource resource(makeHostBackend());
  resource.setBudget(64 * kMiB);
  std::atomic<bool> stop{false};
  std::vector<std::thread> threads;
  for (std::uint64_t thread = 0; thread < 4; ++thread) {
    threads.emplace_back([&, thread] {
      std::mt19937_64 random(thread);
      while (!stop) {
        void* block = resource.allocate(64 + random() % (2 << 20));
        static_cast<char*>(block)[0] = 1;
        resource.deallocate(block);
      }
    });
  }
  auto* mine = static_cast<char*>(resource.allocate(100'000));
  mine[99'999] = 'm';
  for (int round = 0; round < 20; ++round) {
    resource.lockForFork();
    const pid_t child = ::fork();
    resource.unlockAfterFork();
    if (child == 0) {
      ::alarm(60);
      // At most one block per thread was live; the rest of the budget is there, so nothing is
      // short.
      resource.allowOverrun(false);
      void* large = resource.allocate(48U << 20);
      void* small = resource.allocate(10);
      bool good = large != nullptr && small != nullptr && mine[99'999] == 'm';
      resource.deallocate(large);
      resource.deallocate(small);
      resource.deallocate(mine);
      good = good && resource.statistics().mapped_bytes <= 64 * kMiB;
      ::_exit(good ? 0 : 1);
    }
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
  }
  stop = true;
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(mine[99'999], 'm');
  resource.deallocate(mine);
  EXPECT_EQ(resource.statistics().allocated_bytes, 0);
}

}  // namespace
}  // namespace ebbtide::allocator::test
