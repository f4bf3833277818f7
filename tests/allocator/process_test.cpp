// Bad frees, fork, the end of a process, and a system that is really out of memory.
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstring>
#include <fstream>
#include <functional>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "stack.hpp"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define EBBTIDE_TEST_SANITIZED 1
#else
#define EBBTIDE_TEST_SANITIZED 0
#endif

namespace ebbtide::allocator::test {
namespace {

constexpr Stream kStream = Stream::kDefault;

std::unique_ptr<DeviceMemory> makeHostMemory(Bytes reserve_bytes = Bytes{1} << 30) {
  return std::make_unique<DeviceMemory>(makeHostAddressSpace(), makeHostEvents(),
                                        DeviceMemory::Options{.reserve_bytes = reserve_bytes});
}

// Runs the check in a forked child; true when it returned true there. alarm() ends a child that
// hangs, after ten minutes: the longest check takes 25 s beside other work.
bool holdsInChild(const std::function<bool()>& check) {
  const pid_t child = ::fork();
  if (child == 0) {
    ::alarm(600);
    ::_exit(check() ? 0 : 1);
  }
  int status = 0;
  if (child < 0 || ::waitpid(child, &status, 0) != child) return false;
  return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

Bytes fieldOfStatus(const std::string& name) {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with(name + ":")) return std::stoll(line.substr(name.size() + 1)) * kKiB;
  }
  return 0;
}

// From now on the process may have this much more than it has already.
bool limitTo(int resource, const std::string& field, Bytes more_bytes) {
  const auto limit = static_cast<rlim_t>(fieldOfStatus(field) + more_bytes);
  const rlimit limits{limit, limit};
  return ::setrlimit(static_cast<__rlimit_resource>(resource), &limits) == 0;
}

class BadFreeDeathTest : public testing::TestWithParam<std::size_t> {
 protected:
  BadFreeDeathTest() { GTEST_FLAG_SET(death_test_style, "threadsafe"); }
  Stack stack_;
};

INSTANTIATE_TEST_SUITE_P(Sizes, BadFreeDeathTest,
                         testing::Values(std::size_t{100}, std::size_t{20'000},
                                         std::size_t{1} << 20));

TEST_P(BadFreeDeathTest, ADoubleFreeAborts) {
  void* block = stack_->allocate(GetParam(), kStream);
  void* other = stack_->allocate(GetParam(), kStream);
  stack_->deallocate(block);
  EXPECT_DEATH(stack_->deallocate(block), "ebbtide: deallocate.*double free");
  stack_->deallocate(other);
}

TEST_P(BadFreeDeathTest, ADoubleFreeOfASharedBlockAborts) {
  void* block = stack_->allocate(GetParam(), kStream);
  stack_->recordStream(block, Stream{2});
  stack_->deallocate(block);
  EXPECT_DEATH(stack_->deallocate(block), "ebbtide: deallocate.*double free");
}

TEST_P(BadFreeDeathTest, TheInsideOfABlockAborts) {
  auto* block = static_cast<char*>(stack_->allocate(GetParam(), kStream));
  for (const std::size_t at : {std::size_t{1}, std::size_t{64}, GetParam() / 2}) {
    EXPECT_DEATH(stack_->deallocate(block + at), "not the start of a block");
  }
  if (GetParam() > 8192) {
    EXPECT_DEATH(stack_->deallocate(block + 4096), "not the start of a block");
  }
  stack_->deallocate(block);
}

TEST(BadFreePlacedDeathTest, APlacedBlockKnowsItsStart) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  Stack stack;
  stack.placed().beginStep(kStream, sequenceOf({kMiB}), /*this_thread_only=*/false);
  auto* block = static_cast<char*>(stack->allocate(size(kMiB), kStream));
  ASSERT_TRUE(stack.placed().owns(block));
  EXPECT_DEATH(stack->deallocate(block + 4096), "not the start of a block");
  EXPECT_DEATH(stack->deallocate(block + 1), "not the start of a block");
  stack->deallocate(block);
  EXPECT_DEATH(stack->deallocate(block), "double free");
}

TEST(BadFreePlacedDeathTest, AForeignPointerAborts) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  Stack stack;
  static char foreign[64];
  EXPECT_DEATH(stack->deallocate(foreign), "not a block of this allocator");
  EXPECT_DEATH(stack->deallocate(reinterpret_cast<void*>(8)), "not a block of this allocator");
  EXPECT_FALSE(stack.memory().owns(foreign));
  EXPECT_EQ(stack->blockBytes(foreign), 0);
  stack->recordStream(foreign, Stream{2});  // not ours: not our business
  stack->deallocate(stack->allocate(100, kStream));
  EXPECT_DEATH(stack->deallocate(foreign), "not a block of this allocator");
}

// Whoever destroys the memory under live blocks leaves them their addresses and pages.
TEST(ProcessTest, LiveBlocksOutliveTheResource) {
  for (const std::size_t bytes : {std::size_t{8}, std::size_t{1} << 20}) {
    for (const bool placed : {false, true}) {
      auto memory = makeHostMemory();
      if (placed) {
        memory->placed().beginStep(kStream, sequenceOf({kMiB}), /*this_thread_only=*/false);
      }
      auto* block = static_cast<char*>(memory->allocate(bytes, kStream));
      auto* other_stream = static_cast<char*>(memory->allocate(bytes, Stream{2}));
      std::memcpy(block, "alive", 6);
      memory->deallocate(other_stream);
      memory.reset();
      EXPECT_STREQ(block, "alive");
      block[bytes - 1] = 1;
    }
  }
}

TEST(ProcessTest, WithoutLiveBlocksAllAddressesGoBack) {
  const Bytes before = fieldOfStatus("VmSize");
  for (int round = 0; round < 20; ++round) {
    auto memory = makeHostMemory(Bytes{1} << 36);
    memory->placed().beginStep(kStream, sequenceOf({kMiB}), /*this_thread_only=*/false);
    memory->deallocate(memory->allocate(size(kMiB), kStream));
    memory->deallocate(memory->allocate(10, Stream{2}));
  }
  EXPECT_LT(fieldOfStatus("VmSize"), before + (Bytes{1} << 35));
}

TEST(ProcessTest, AProcessMayEndWithLiveBlocks) {
  const auto run = [] {
    static DeviceMemory& memory = *makeHostMemory().release();  // as a plugin does: never destroyed
    static DeviceMemory own(makeHostAddressSpace(), makeHostEvents(), {});
    void* block = memory.allocate(1000, kStream);
    std::memset(own.allocate(size(kMiB), kStream), 1, size(kMiB));
    // Freed by another static's destructor, say.
    std::atexit([] { memory.deallocate(memory.allocate(10, kStream)); });
    std::memset(block, 1, 1000);
    std::exit(0);
  };
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(run(), testing::ExitedWithCode(0), "");
}

TEST(ProcessTest, AnAddressSpaceLimitIsOutOfMemoryAndNotTheEnd) {
  if (EBBTIDE_TEST_SANITIZED) GTEST_SKIP() << "a sanitizer needs the address space";
  EXPECT_TRUE(holdsInChild([] {
    if (!limitTo(RLIMIT_AS, "VmSize", 512 * kMiB)) return false;
    const auto memory = makeHostMemory(Bytes{64} << 30);  // by halves fewer
    // More streams than there are addresses for: none is half made.
    const Bytes before = fieldOfStatus("VmSize");
    int served = 0;
    for (std::uintptr_t stream = 1; stream <= 20; ++stream) {
      void* block = memory->allocate(100'000, Stream{stream});
      if (block == nullptr) continue;
      std::memset(block, 1, 100'000);
      ++served;
      memory->deallocate(block);
    }
    void* const not_planned = memory->allocate(std::size_t{1} << 30, Stream{1});
    return served >= 1 && served < 5 && not_planned == nullptr && before > 0 &&
           memory->statistics().allocated_bytes == 0;
  }));
}

// The limit on writable memory lets addresses be and refuses pages: a real ENOMEM of mprotect().
TEST(ProcessTest, ADataLimitIsOutOfMemoryAndNotTheEnd) {
  if (EBBTIDE_TEST_SANITIZED) GTEST_SKIP() << "a sanitizer needs the memory";
  EXPECT_TRUE(holdsInChild([] {
    // The books of the pools count too; make them before.
    const auto memory = makeHostMemory();
    memory->limitOverrun(0);
    for (const std::uintptr_t stream : {0, 1}) {
      memory->deallocate(memory->allocate(100'000, Stream{stream}));
    }
    memory->releaseCached();
    if (!limitTo(RLIMIT_DATA, "VmData", 128 * kMiB)) return false;
    if (memory->allocate(256U << 20, kStream) != nullptr) return false;
    if (memory->budgetTracker().mappedBytes() != 0) return false;
    // 64 MiB are cached for the other stream; 100 fit only once they went back.
    void* cached = memory->allocate(64U << 20, Stream{1});
    if (cached == nullptr) return false;
    memory->deallocate(cached);
    void* block = memory->allocate(100U << 20, kStream);
    if (block == nullptr) return false;
    std::memset(block, 1, 100U << 20);
    const bool right = memory->budgetTracker().mappedBytes() <= 128 * kMiB;
    memory->deallocate(block);
    memory->releaseCached();
    return right && memory->budgetTracker().mappedBytes() == 0;
  }));
}

TEST(ProcessTest, TheSmallestBlocksAlsoRunOutCleanly) {
  if (EBBTIDE_TEST_SANITIZED) GTEST_SKIP() << "a sanitizer needs the memory";
  EXPECT_TRUE(holdsInChild([] {
    const auto memory = makeHostMemory();
    memory->deallocate(memory->allocate(100, kStream));
    if (!limitTo(RLIMIT_DATA, "VmData", 64 * kMiB)) return false;
    void* last = nullptr;
    int blocks = 0;
    while (void* block = memory->allocate(32000, kStream)) {
      *static_cast<void**>(block) = last;
      last = block;
      ++blocks;
    }
    const Statistics full = memory->statistics();
    for (int i = 0; i < blocks; ++i) {
      void* next = *static_cast<void**>(last);
      memory->deallocate(last);
      last = next;
    }
    // Slots of 32 KiB. At least half the limit was usable.
    return blocks > 1024 && full.allocated_bytes == blocks * 32 * kKiB &&
           memory->statistics().allocated_bytes == 0 && memory->allocate(32000, kStream) != nullptr;
  }));
}

// All that is mapped is locked at once, reserved addresses too. What goes back really does.
TEST(ProcessTest, InAProcessThatLocksItsMemoryPagesGoAllTheSame) {
  if (EBBTIDE_TEST_SANITIZED) GTEST_SKIP() << "a sanitizer's shadow cannot be locked";
  const bool may_lock = holdsInChild([] { return ::mlockall(MCL_CURRENT | MCL_FUTURE) == 0; });
  if (!may_lock) GTEST_SKIP() << "no right to lock memory";
  for (const int flags : {MCL_CURRENT, MCL_CURRENT | MCL_FUTURE}) {
    EXPECT_TRUE(holdsInChild([flags] {
      std::unique_ptr<DeviceMemory> memory;
      const bool before = (flags & MCL_FUTURE) == 0;  // there before the lock, or after it
      if (before) memory = makeHostMemory();
      void* held = before ? memory->allocate(size(64 * kMiB), kStream) : nullptr;
      if (::mlockall(flags) != 0) return false;
      if (!before) {
        memory = makeHostMemory();
        held = memory->allocate(size(64 * kMiB), kStream);
      }
      std::memset(held, 1, size(64 * kMiB));
      const Bytes full = fieldOfStatus("VmRSS");
      memory->deallocate(held);
      memory->releaseCached();
      if (memory->budgetTracker().mappedBytes() != 0) return false;
      if (full - fieldOfStatus("VmRSS") < 60 * kMiB) return false;
      auto* again = static_cast<char*>(memory->allocate(size(64 * kMiB), kStream));
      const bool fresh = again != nullptr && again[0] == 0 && again[32 * kMiB] == 0;
      memory->deallocate(again);
      return fresh;
    })) << flags;
  }
}

// Every second of 40,000 blocks is freed and unmapped: more mappings than the kernel has slots for
// (vm.max_map_count, 65,530 unless set otherwise). Pages still go, and what lives is whole.
TEST(ProcessTest, WithoutMappingSlotsPagesGoAllTheSame) {
  if (EBBTIDE_TEST_SANITIZED) GTEST_SKIP() << "a sanitizer needs mappings of its own";
  EXPECT_TRUE(holdsInChild([] {
    constexpr std::size_t kBlock = 36 * 1024;
    constexpr std::size_t kCount = 80'000;
    const auto memory = makeHostMemory(Bytes{8} << 30);
    std::vector<char*> blocks(kCount);
    for (std::size_t i = 0; i < kCount; ++i) {
      blocks[i] = static_cast<char*>(memory->allocate(kBlock, kStream));
      if (blocks[i] == nullptr) return false;
      blocks[i][0] = static_cast<char>(i);  // one page of nine
    }
    for (std::size_t i = 0; i < kCount; i += 2) memory->deallocate(blocks[i]);
    const Bytes before = fieldOfStatus("VmRSS");
    memory->releaseCached();
    if (memory->budgetTracker().mappedBytes() != memory->budgetTracker().liveBytes()) return false;
    // 40,000 touched pages; the books of them may have grown a little.
    if (before - fieldOfStatus("VmRSS") < 40'000 * kPage * 3 / 4) return false;
    for (std::size_t i = 1; i < kCount; i += 2) {
      if (blocks[i][0] != static_cast<char>(i)) return false;
    }
    for (std::size_t i = 0; i < kCount; i += 2) {
      blocks[i] = static_cast<char*>(memory->allocate(kBlock, kStream));
      if (blocks[i] == nullptr || blocks[i][0] != 0) return false;  // fresh, and writable
      blocks[i][kBlock - 1] = 1;
    }
    return true;
  }));
}

// Forks again and again while four threads allocate. The child finds the locks free, its own blocks
// whole, and a budget tracker that is right.
TEST(ProcessTest, TheChildOfABusyParentCanAllocate) {
  Stack stack;
  stack.limit(64 * kMiB);
  auto sequence = sequenceOf({kMiB, 2 * kMiB});
  std::atomic<bool> stop{false};
  std::vector<std::thread> threads;
  for (std::uint64_t thread = 0; thread < 4; ++thread) {
    threads.emplace_back([&, thread] {
      std::mt19937_64 random(thread);
      while (!stop) {
        if (thread == 0) stack.placed().beginStep(Stream{0}, sequence, /*this_thread_only=*/true);
        void* block = stack->allocate(64 + random() % (2 << 20), Stream{thread % 2});
        if (block == nullptr) continue;
        static_cast<char*>(block)[0] = 1;
        if (random() % 8 == 0) stack->recordStream(block, Stream{5});
        stack->deallocate(block);
        if (random() % 64 == 0) stack.memory().releaseCached();
      }
    });
  }
  auto* mine = static_cast<char*>(stack->allocate(100'000, Stream{3}));
  mine[99'999] = 'm';
  for (int round = 0; round < 20; ++round) {
    stack.memory().lockForFork();
    stack.events().lockForFork();
    stack.spy().lockForFork();
    const pid_t child = ::fork();
    stack.spy().unlockAfterFork();
    stack.events().unlockAfterFork();
    stack.memory().unlockAfterFork();
    if (child == 0) {
      ::alarm(60);
      // At most one block per thread was live; the rest of the budget is there.
      void* large = stack->allocate(48U << 20, Stream{3});
      void* small = stack->allocate(10, Stream{4});
      bool good = large != nullptr && small != nullptr && mine[99'999] == 'm';
      stack->deallocate(large);
      stack->deallocate(small);
      stack->deallocate(mine);
      stack.memory().releaseCached();
      good = good && stack.budgetTracker().mappedBytes() <= 64 * kMiB &&
             stack.spy().mappedBytes() == stack.budgetTracker().mappedBytes();
      ::_exit(good ? 0 : 1);
    }
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
  }
  stop = true;
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(mine[99'999], 'm');
  stack->deallocate(mine);
  EXPECT_EQ(stack.budgetTracker().liveBytes(), 0);
  stack.expectSound();
}

class SlowReclaimer final : public Reclaimer {
 public:
  Bytes reclaim(const ReclaimRequest&) noexcept override {
    entered = true;
    while (!go_on) std::this_thread::yield();
    return 0;
  }
  std::atomic<bool> entered{false}, go_on{false};
};

// The fork happens while another thread is in the reclaimer, and a third waits for it: in the child
// neither is there, and a shortage there asks the reclaimer anew.
TEST(ProcessTest, AReclaimOfAnotherThreadDoesNotHangTheChild) {
  Stack stack;
  stack.limit(4 * kMiB);
  SlowReclaimer reclaimer;
  stack.memory().setReclaimer(&reclaimer);
  void* held = stack->allocate(size(4 * kMiB), kStream);
  std::thread first([&] { EXPECT_EQ(stack->allocate(size(kMiB), kStream), nullptr); });
  while (!reclaimer.entered) std::this_thread::yield();
  std::thread second([&] { EXPECT_EQ(stack->allocate(size(kMiB), kStream), nullptr); });
  std::this_thread::sleep_for(std::chrono::milliseconds(10));
  stack.memory().lockForFork();
  const pid_t child = ::fork();
  stack.memory().unlockAfterFork();
  if (child == 0) {
    ::alarm(60);
    reclaimer.go_on = true;
    const bool refused = stack->allocate(size(kMiB), kStream) == nullptr;
    stack->deallocate(held);
    stack.memory().setReclaimer(nullptr);
    ::_exit(refused && stack->allocate(size(kMiB), kStream) != nullptr ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
  reclaimer.go_on = true;
  first.join();
  second.join();
  stack.memory().setReclaimer(nullptr);
  stack->deallocate(held);
}

}  // namespace
}  // namespace ebbtide::allocator::test
