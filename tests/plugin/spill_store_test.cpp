#include "device/spill_store.hpp"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <optional>
#include <string>
#include <system_error>
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
  const auto a = pattern(3'000'001, 1);  // over one part and not a multiple of it
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

// A file system that has taken bytes, and loses them before they are on the disk.
class ForgetfulDiskTest : public testing::Test {
 protected:
  static constexpr std::int64_t kBytes = 600'000;  // two whole parts of 262144 and a rest

  void SetUp() override {
    std::string made = (std::filesystem::temp_directory_path() / "ebbtide-disk-XXXXXX").string();
    ASSERT_NE(::mkdtemp(made.data()), nullptr);
    folder_ = made;
    store_.emplace(folder_);
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  SpillTarget::Slot written(char seed) {
    const auto data = pattern(kBytes, seed);
    const auto slot = store_->write(data.data(), kBytes);
    EXPECT_TRUE(slot);
    return slot.value_or(SpillTarget::Slot{});
  }
  // The store's file has no name: a descriptor of this process leads to it.
  void overwrite(const SpillTarget::Slot& slot, std::int64_t at, const std::vector<char>& with) {
    for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
      std::error_code gone;  // the iterator's own
      const std::string target = std::filesystem::read_symlink(entry.path(), gone).string();
      if (!target.starts_with(folder_ + "/")) continue;
      const int file = std::stoi(entry.path().filename());
      ASSERT_EQ(::pwrite(file, with.data(), with.size(), slot.offset + at),
                static_cast<ssize_t>(with.size()));
      return;
    }
    FAIL() << "no file is open in " << folder_;
  }
  void expectOtherBytes(const SpillTarget::Slot& slot) {
    std::vector<char> back(kBytes);
    EXPECT_FALSE(store_->read(slot, back.data()));
    EXPECT_EQ(store_->lastError(),
              "read error in " + folder_ + ": other bytes came back than were written");
  }

  std::string folder_;
  std::optional<SpillStore> store_;
};

TEST_F(ForgetfulDiskTest, ZerosInPlaceOfAPageAreAnError) {
  const auto slot = written(1), other = written(2);
  overwrite(slot, 4096, std::vector<char>(4096, 0));
  expectOtherBytes(slot);
  std::vector<char> back(kBytes);
  EXPECT_TRUE(store_->read(other, back.data()));
  EXPECT_EQ(back, pattern(kBytes, 2));
}

// At each end of a part, and in what follows the last whole one.
TEST_F(ForgetfulDiskTest, OneOtherByteIsAnError) {
  const auto data = pattern(kBytes, 3);
  const auto slot = written(3);
  std::vector<char> back(kBytes);
  for (const std::int64_t at : {std::int64_t{0}, std::int64_t{262'143}, std::int64_t{262'144},
                                std::int64_t{524'288}, kBytes - 1}) {
    const char right = data[static_cast<std::size_t>(at)];
    overwrite(slot, at, {static_cast<char>(right ^ 1)});
    expectOtherBytes(slot);
    overwrite(slot, at, {right});
    EXPECT_TRUE(store_->read(slot, back.data())) << at;
  }
  EXPECT_EQ(back, data);
}

// The slot was another value's before, whose bytes the disk still has.
TEST_F(ForgetfulDiskTest, OlderBytesAreAnError) {
  const auto before = written(4);
  store_->release(before);
  const auto now = written(5);
  ASSERT_EQ(now.offset, before.offset);
  overwrite(now, 0, pattern(kBytes, 4));
  expectOtherBytes(now);
}

// Whether a replay is right does not depend on the disk: neither on what it lost, nor on zeros that
// are like those of a wrong replay.
TEST_F(ForgetfulDiskTest, ComparesWithWhatWasWritten) {
  const auto slot = written(6);
  const std::vector<char> zeros(kBytes, 0);
  overwrite(slot, 0, zeros);
  EXPECT_TRUE(store_->equals(slot, pattern(kBytes, 6).data()));
  EXPECT_FALSE(store_->equals(slot, zeros.data()));
}

TEST(SpillStore, FullDiskIsAResult) {
  // A file-size limit of 64 KiB stands for a full disk; in a child, since a limit cannot be raised
  // again. The signal of such a write ends a program that does not ignore it, as Python does.
  const pid_t child = ::fork();
  if (child == 0) {
    std::signal(SIGXFSZ, SIG_DFL);
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
  std::vector<char> back(4096);
  EXPECT_TRUE(store.read(*slot, back.data()));
  EXPECT_EQ(back, first);
  EXPECT_TRUE(store.read(*next, back.data()));
  EXPECT_EQ(back, second);
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
        std::vector<char> back(data.size());
        if (!slot || !store.read(*slot, back.data()) || back != data) ++wrong;
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
    std::signal(SIGXFSZ, SIG_DFL);
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
