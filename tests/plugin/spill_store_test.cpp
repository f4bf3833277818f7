#include "device/spill_store.hpp"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <filesystem>
#include <thread>
#include <vector>

namespace ebbtide::plugin {
namespace {

std::vector<char> pattern(std::size_t bytes, char seed) {
  std::vector<char> data(bytes);
  for (std::size_t i = 0; i < bytes; ++i)
    data[i] = static_cast<char>(seed + static_cast<char>(i * 31));
  return data;
}

TEST(SpillStore, GivesBackWhatItTook) {
  SpillStore store("");
  const auto a = pattern(3'000'001, 1);  // over one comparison chunk and not a multiple of it
  const auto b = pattern(17, 9);
  const auto slot_a = store.write(a.data(), static_cast<std::int64_t>(a.size()));
  const auto slot_b = store.write(b.data(), static_cast<std::int64_t>(b.size()));
  ASSERT_TRUE(slot_a && slot_b);
  std::vector<char> back(a.size());
  ASSERT_TRUE(store.read(*slot_a, back.data()));
  EXPECT_EQ(back, a);
  EXPECT_TRUE(store.equals(*slot_b, b.data()));
  EXPECT_EQ(store.writtenBytes(), 3'000'001 + 17);
}

TEST(SpillStore, OneChangedByteIsSeen) {
  SpillStore store("");
  auto data = pattern(2'500'000, 3);
  const auto slot = store.write(data.data(), static_cast<std::int64_t>(data.size()));
  ASSERT_TRUE(slot);
  EXPECT_TRUE(store.equals(*slot, data.data()));
  data.back() ^= 1;
  EXPECT_FALSE(store.equals(*slot, data.data()));
}

TEST(SpillStore, ReleasedSlotsAreUsedAgain) {
  SpillStore store("");
  const auto data = pattern(4096, 5);
  const auto first = store.write(data.data(), 4096);
  store.release(*first);
  const auto second = store.write(data.data(), 4096);
  EXPECT_EQ(second->offset, first->offset);
}

TEST(SpillStore, MissingFolderIsAResult) {
  SpillStore store("/nonexistent/folder");
  EXPECT_FALSE(store.write("abc", 3).has_value());
  EXPECT_NE(store.lastError().find("/nonexistent/folder"), std::string::npos);
}

// The folder is missing, so the write makes no file. The read then fails with EBADF (9).
TEST(SpillStore, AReadThatFailsReplacesTheOlderError) {
  SpillStore store("/nonexistent/folder");
  EXPECT_FALSE(store.write("abc", 3).has_value());
  char back[3];
  EXPECT_FALSE(store.read({.offset = 0, .bytes = 3, .room_bytes = 3}, back));
  EXPECT_EQ(store.lastError(), "read error in /nonexistent/folder: Bad file descriptor (errno 9)");
}

// The file has 3 bytes; the slot says 4. EIO is 5.
TEST(SpillStore, AFileThatEndsBeforeItsSlotIsAnError) {
  SpillStore store("");
  auto slot = store.write("abc", 3);
  ASSERT_TRUE(slot);
  slot->bytes = 4;
  char back[4];
  EXPECT_FALSE(store.read(*slot, back));
  EXPECT_NE(store.lastError().find("read error in "), std::string::npos);
  EXPECT_NE(store.lastError().find("(errno 5)"), std::string::npos) << store.lastError();
}

TEST(SpillStore, FullDiskIsAResult) {
  // A file-size limit of 64 KiB stands for a full disk; in a child, since a limit cannot be raised
  // again.
  const pid_t child = ::fork();
  if (child == 0) {
    std::signal(SIGXFSZ, SIG_IGN);
    const rlimit limit{64 << 10, 64 << 10};
    ::setrlimit(RLIMIT_FSIZE, &limit);
    SpillStore store("");
    const auto data = pattern(128 << 10, 7);
    const bool refused = !store.write(data.data(), 128 << 10).has_value();
    const std::string error = store.lastError();
    const bool named = error.find(std::filesystem::temp_directory_path().string()) != error.npos &&
                       error.find("errno 27") != error.npos;
    // What was not written takes no place of the file.
    const auto slot = store.write(data.data(), 32 << 10);
    ::_exit(refused && named && slot && slot->offset == 0 ? 0 : 1);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

TEST(SpillStore, ForkedChildrenLeaveTheFileAlone) {
  SpillStore store("");
  const auto first = pattern(4096, 1), second = pattern(4096, 2), third = pattern(4096, 3);
  const auto slot = store.write(first.data(), 4096);
  ASSERT_TRUE(slot);
  const pid_t child = ::fork();
  if (child == 0) {  // its list of slots is a copy: the parent writes to the same place
    const auto mine = store.write(third.data(), 4096);
    ::_exit(!mine && !store.lastError().empty() ? 0 : 1);
  }
  const auto next = store.write(second.data(), 4096);
  int status = 0;
  ::waitpid(child, &status, 0);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  ASSERT_TRUE(next);
  EXPECT_TRUE(store.equals(*slot, first.data()));
  EXPECT_TRUE(store.equals(*next, second.data()));
}

TEST(SpillStore, ThreadsDoNotMixTheirBytes) {
  SpillStore store("");
  std::vector<std::thread> threads;
  std::atomic<int> wrong{0};
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (int round = 0; round < 50; ++round) {
        const auto data =
            pattern(10'000 + static_cast<std::size_t>(t), static_cast<char>(t * 50 + round));
        const auto slot = store.write(data.data(), static_cast<std::int64_t>(data.size()));
        if (!slot || !store.equals(*slot, data.data())) ++wrong;
        if (slot && round % 2 == 0) store.release(*slot);
      }
    });
  }
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
}

TEST(SpillStore, KnowsItsBandwidthWhereItCanStore) {
  SpillStore store("");
  EXPECT_GT(store.roundTripBytesPerSecond(), 0);
  const std::int64_t tried = store.writtenBytes();
  EXPECT_GT(tried, 0);  // nothing had been moved, so a trial was made
  EXPECT_GT(store.roundTripBytesPerSecond(), 0);
  EXPECT_EQ(store.writtenBytes(), tried);  // one is enough
  EXPECT_EQ(SpillStore("/nonexistent/folder").roundTripBytesPerSecond(), 0);
}

// No file is written at a terabyte a second, nor at less than a megabyte: a millionth of one is
// below the other.
TEST(SpillStore, ATrialCountsAsIfAllThatShareTheDiskHadTheirPart) {
  constexpr std::int64_t kMegabyte = 1'000'000;
  SpillStore alone("", 1), shared("", 1'000'000);
  EXPECT_GT(alone.roundTripBytesPerSecond(), kMegabyte);
  EXPECT_LT(shared.roundTripBytesPerSecond(), kMegabyte);
  EXPECT_GT(shared.roundTripBytesPerSecond(), 0);
}

TEST(SpillStore, TriesOutOnce) {
  // Who asks may be short of memory at each allocation, and the disk full for long.
  const pid_t child = ::fork();
  if (child == 0) {
    std::signal(SIGXFSZ, SIG_IGN);
    rlimit limit{};
    ::getrlimit(RLIMIT_FSIZE, &limit);
    limit.rlim_cur = 64 << 10;  // may be raised again
    ::setrlimit(RLIMIT_FSIZE, &limit);
    SpillStore store("");
    const bool refused = store.roundTripBytesPerSecond() == 0;
    limit.rlim_cur = limit.rlim_max;
    ::setrlimit(RLIMIT_FSIZE, &limit);
    const bool not_again = store.roundTripBytesPerSecond() == 0 && store.writtenBytes() == 0;
    ::_exit(refused && not_again && store.write("abc", 3) ? 0 : 1);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

TEST(SpillStore, KnowsMemoryFromDisk) {
  EXPECT_TRUE(SpillStore("/dev/shm").inMemory());
  EXPECT_FALSE(SpillStore("/nonexistent/folder").inMemory());
}

TEST(SpillStore, WhatItMovesIsItsTrial) {
  SpillStore store("");
  auto data = pattern(2 << 20, 3);
  constexpr std::int64_t kBytes = 2 << 20;
  // The first time the file system finds room; 16 MiB count after that, in each direction.
  for (int i = 0; i < 9; ++i) {
    const auto slot = store.write(data.data(), kBytes);
    ASSERT_TRUE(slot && store.read(*slot, data.data()));
    store.release(*slot);
  }
  EXPECT_GT(store.roundTripBytesPerSecond(), 0);
  EXPECT_EQ(store.writtenBytes(), 9 * kBytes);
}

}  // namespace
}  // namespace ebbtide::plugin
