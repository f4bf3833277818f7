#include "ebbtide/metrics/whole_file.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <string>
#include <thread>

#include "private_folder.hpp"

namespace ebbtide::metrics {
namespace {

namespace fs = std::filesystem;

class WholeFileTest : public testing::Test {
 protected:
  std::string path() const { return (folder_ / "a.json").string(); }
  static std::string contents(const std::string& path) {
    std::ifstream file(path);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  std::ptrdiff_t files() const {
    return std::distance(fs::directory_iterator(folder_), fs::directory_iterator());
  }
  static mode_t modeOf(const std::string& path) {
    struct stat status {};
    return ::lstat(path.c_str(), &status) == 0 ? status.st_mode & 07777 : 0;
  }
  static ino_t inodeOf(const std::string& path) {
    struct stat status {};
    return ::lstat(path.c_str(), &status) == 0 ? status.st_ino : 0;
  }
  static void writeOld(const std::string& path) { std::ofstream(path) << "old"; }

  const test::PrivateFolder own_;
  const fs::path folder_ = own_.path();
};

// The result of a child process, whose limits and mask are its own.
bool inChild(const std::function<bool()>& holds) {
  const pid_t child = ::fork();
  if (child == 0) ::_exit(holds() ? 0 : 1);
  int status = 0;
  ::waitpid(child, &status, 0);
  return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

TEST_F(WholeFileTest, TakesItsPlaceWhenAllIsThere) {
  writeOld(path());
  {
    WholeFile file(path());
    file.write("new ");
    file.write("text");
    EXPECT_EQ(contents(path()), "old");
    for (const auto& entry :
         fs::directory_iterator(folder_))  // a glob finds the one, not the other
      EXPECT_EQ(entry.path().extension() == ".json", entry.path() == path());
    EXPECT_TRUE(file.keep());
    EXPECT_FALSE(file.failed());
  }
  EXPECT_EQ(contents(path()), "new text");
  EXPECT_EQ(files(), 1);
}

TEST_F(WholeFileTest, LeavesNothingWhereItWasNotKept) {
  { WholeFile(path()).write("text"); }
  EXPECT_TRUE(fs::is_empty(folder_));
}

TEST_F(WholeFileTest, TwoOfOneNameDoNotMix) {
  WholeFile first(path()), second(path());
  first.write("first");
  second.write("second");
  EXPECT_TRUE(second.keep());
  EXPECT_TRUE(first.keep());
  EXPECT_EQ(contents(path()), "first");
  EXPECT_EQ(files(), 1);
}

// Each less the umask: 0666 & ~027 is 0640.
TEST_F(WholeFileTest, IsReadableForWhomItIsSaidToBe) {
  const auto modeWith = [this](mode_t mode, mode_t mask, mode_t expected) {
    return inChild([&] {
      ::umask(mask);
      fs::remove(path());
      return WholeFile(path(), mode).keep() && modeOf(path()) == expected;
    });
  };
  EXPECT_TRUE(modeWith(WholeFile::kForTheUser, 022, 0600));
  EXPECT_TRUE(modeWith(WholeFile::kForReaders, 002, 0644));
  EXPECT_TRUE(modeWith(WholeFile::kForReaders, 077, 0600));
  EXPECT_TRUE(modeWith(WholeFile::kAsUsual, 027, 0640));
}

// A file of the user's that is there has been given its bits on purpose.
TEST_F(WholeFileTest, LeavesTheBitsOfTheFileThatItReplaces) {
  const auto modeOver = [this](mode_t old, mode_t mode, mode_t mask) {
    writeOld(path());
    ::chmod(path().c_str(), old);
    const mode_t before = ::umask(mask);
    EXPECT_TRUE(WholeFile(path(), mode).keep());
    ::umask(before);
    return modeOf(path());
  };
  EXPECT_EQ(modeOver(0600, WholeFile::kAsUsual, 022), 0600);
  EXPECT_EQ(modeOver(0664, WholeFile::kAsUsual, 077), 0664);
  EXPECT_EQ(modeOver(04755, WholeFile::kAsUsual, 022), 0755);
  EXPECT_EQ(modeOver(0600, WholeFile::kForReaders, 022), 0644);
  EXPECT_EQ(modeOver(0644, WholeFile::kForTheUser, 022), 0600);
}

TEST_F(WholeFileTest, TakesNoBitsFromAnothersFile) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can make a file another user's";
  writeOld(path());
  ASSERT_EQ(::chown(path().c_str(), 12345, 12345), 0);
  ASSERT_EQ(::chmod(path().c_str(), 0606), 0);
  EXPECT_TRUE(inChild([this] {
    ::umask(027);
    return WholeFile(path(), WholeFile::kAsUsual).keep() && modeOf(path()) == 0640;
  }));
}

// A disk that takes 4 bytes more, as far as this process is concerned. The signal of such a write
// would end it: it is a C++ program's, that does not ignore it.
TEST_F(WholeFileTest, AFullDiskLeavesWhatWasThere) {
  writeOld(path());
  EXPECT_TRUE(inChild([this] {
    ::signal(SIGXFSZ, SIG_DFL);
    const rlimit four{4, 4};
    ::setrlimit(RLIMIT_FSIZE, &four);
    WholeFile file(path());
    file.write("longer than that");
    const bool told = file.failed();
    file.write("and what comes after");
    return told && !file.keep() && file.error() == path() + ": File too large" &&
           file.reason() == "File too large";
  }));
  EXPECT_EQ(contents(path()), "old");
  EXPECT_EQ(files(), 1);
}

TEST_F(WholeFileTest, SaysWhatIsWrongWithItsPlace) {
  WholeFile nowhere((folder_ / "missing/a").string());
  EXPECT_TRUE(nowhere.failed());
  EXPECT_FALSE(nowhere.keep());
  EXPECT_EQ(nowhere.reason(), "No such file or directory");
  fs::create_directory(path());
  WholeFile folder(path());
  EXPECT_FALSE(folder.keep());
  EXPECT_EQ(folder.error(), path() + ": Is a directory");
}

// The target is another file afterwards: nobody reads half of it.
TEST_F(WholeFileTest, ALinkOfOnesOwnStays) {
  const std::string target = (folder_ / "elsewhere/target").string();
  fs::create_directory(folder_ / "elsewhere");
  writeOld(target);
  const ino_t old = inodeOf(target);
  fs::create_symlink("elsewhere/link", path());
  fs::create_symlink(target, folder_ / "elsewhere/link");
  {
    WholeFile file(path());
    file.write("n");
    EXPECT_EQ(contents(target), "old");
    EXPECT_TRUE(file.keep());
  }
  EXPECT_TRUE(fs::is_symlink(path()));
  EXPECT_TRUE(fs::is_symlink(folder_ / "elsewhere/link"));
  EXPECT_EQ(contents(target), "n");
  EXPECT_NE(inodeOf(target), old);
  // Three of them, and the folder: nothing is left beside.
  EXPECT_EQ(std::distance(fs::recursive_directory_iterator(folder_), {}), 4);
}

TEST_F(WholeFileTest, ALinkToNothingYetIsALinkToTheFile) {
  fs::create_symlink("target", path());
  WholeFile file(path());
  file.write("new");
  EXPECT_TRUE(file.keep());
  EXPECT_TRUE(fs::is_symlink(path()));
  EXPECT_EQ(contents((folder_ / "target").string()), "new");
}

TEST_F(WholeFileTest, LinksThatLeadNowhereAreAnError) {
  fs::create_symlink("a.json", path());
  WholeFile file(path());
  file.write("new");
  EXPECT_FALSE(file.keep());
  EXPECT_EQ(file.reason(), "Too many levels of symbolic links");
  EXPECT_TRUE(fs::is_symlink(path()));
}

// As /dev/stdout is, of a program whose output goes to a file: a link to a link of /proc.
TEST_F(WholeFileTest, WhatIsOpenIsWrittenAtItsEnd) {
  const std::string log = (folder_ / "log").string();
  writeOld(log);
  const ino_t old = inodeOf(log);
  const int open = ::open(log.c_str(), O_WRONLY | O_APPEND | O_CLOEXEC);
  const std::string name = "/proc/self/fd/" + std::to_string(open);
  fs::create_symlink(name, path());
  for (const std::string& place : {name, path()}) {
    WholeFile file(place);
    file.write(", new");
    EXPECT_TRUE(file.keep()) << file.error();
  }
  ::close(open);
  EXPECT_EQ(contents(log), "old, new, new");
  EXPECT_EQ(inodeOf(log), old);
  EXPECT_TRUE(fs::is_symlink(path()));
  EXPECT_EQ(files(), 2);
}

TEST_F(WholeFileTest, ALinkOfAnothersIsNotFollowed) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can make a link another user's";
  const std::string target = (folder_ / "target").string();
  writeOld(target);
  fs::create_symlink(target, path());
  ASSERT_EQ(::lchown(path().c_str(), 12345, 12345), 0);
  WholeFile file(path());
  file.write("new");
  EXPECT_TRUE(file.keep());
  EXPECT_EQ(contents(target), "old");
  EXPECT_FALSE(fs::is_symlink(path()));
  EXPECT_EQ(contents(path()), "new");
}

TEST_F(WholeFileTest, ADeviceIsWrittenTo) {
  WholeFile full("/dev/full");
  full.write("text");
  EXPECT_FALSE(full.keep());
  EXPECT_EQ(full.error(), "/dev/full: No space left on device");
  EXPECT_TRUE(fs::is_character_file("/dev/full"));
}

TEST_F(WholeFileTest, APipeThatNobodyReadsIsNotWaitedFor) {
  ASSERT_EQ(::mkfifo(path().c_str(), 0600), 0);
  WholeFile file(path());
  file.write("text");
  EXPECT_FALSE(file.keep());
  EXPECT_EQ(file.reason(), "No such device or address");
  EXPECT_TRUE(fs::is_fifo(path()));
}

TEST_F(WholeFileTest, APipeIsWrittenTo) {
  ASSERT_EQ(::mkfifo(path().c_str(), 0600), 0);
  const int reader = ::open(path().c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC);
  WholeFile file(path());
  file.write("text");
  EXPECT_TRUE(file.keep()) << file.error();
  char text[8];
  EXPECT_EQ(::read(reader, text, sizeof text), 4);
  ::close(reader);
  EXPECT_TRUE(fs::is_fifo(path()));
}

// More than a pipe holds, 64 KiB.
TEST_F(WholeFileTest, AReaderThatStandsStillIsNotWaitedForForEver) {
  ASSERT_EQ(::mkfifo(path().c_str(), 0600), 0);
  const int reader = ::open(path().c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC);
  const auto before = std::chrono::steady_clock::now();
  WholeFile file(path());
  file.write(std::string(1 << 20, 'x'));
  EXPECT_FALSE(file.keep());
  EXPECT_EQ(file.reason(), "Resource temporarily unavailable");
  const auto took = std::chrono::steady_clock::now() - before;
  EXPECT_GE(took, WholeFile::kPatience);
  EXPECT_LT(took, 30 * WholeFile::kPatience);
  ::close(reader);
}

TEST_F(WholeFileTest, AReaderThatIsSlowGetsAll) {
  ASSERT_EQ(::mkfifo(path().c_str(), 0600), 0);
  const int reader = ::open(path().c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC);
  constexpr std::size_t kBytes = 1 << 18;  // four times what the pipe holds
  std::size_t got = 0;
  WholeFile file(path());
  std::thread reads([&] {
    std::string piece(1 << 16, '\0');
    while (got < kBytes) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
      const ssize_t some = ::read(reader, piece.data(), piece.size());
      if (some == 0) break;  // closed
      got += some > 0 ? static_cast<std::size_t>(some) : 0;
    }
  });
  file.write(std::string(kBytes, 'x'));
  EXPECT_TRUE(file.keep()) << file.error();
  reads.join();
  EXPECT_EQ(got, kBytes);
  ::close(reader);
}

// Its signal would end this process.
TEST_F(WholeFileTest, AReaderThatGoesIsAnError) {
  ASSERT_EQ(::mkfifo(path().c_str(), 0600), 0);
  const int reader = ::open(path().c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC);
  WholeFile file(path());
  ::close(reader);
  file.write("text");
  EXPECT_FALSE(file.keep());
  EXPECT_EQ(file.reason(), "Broken pipe");
  sigset_t pending;
  ::sigpending(&pending);
  EXPECT_EQ(::sigismember(&pending, SIGPIPE), 0);
}

// Who made it would read what is written.
TEST_F(WholeFileTest, APipeOfAnothersIsNotWrittenTo) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can make a pipe another user's";
  ASSERT_EQ(::mkfifo(path().c_str(), 0600), 0);
  ASSERT_EQ(::chown(path().c_str(), 12345, 12345), 0);
  const int reader = ::open(path().c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC);
  WholeFile file(path());
  file.write("text");
  EXPECT_TRUE(file.keep());
  ::close(reader);
  ASSERT_TRUE(fs::is_regular_file(path()));  // a pipe would be waited for
  EXPECT_EQ(contents(path()), "text");
}

// As a container has it: its name cannot be another file's.
TEST_F(WholeFileTest, AMountedFileIsWrittenInPlace) {
  const std::string outside = (folder_ / "outside").string();
  writeOld(path());
  std::ofstream(outside) << "longer than the new text";
  constexpr int kMayNotMount = 77;
  const pid_t child = ::fork();
  if (child == 0) {
    if (::unshare(CLONE_NEWNS) != 0 ||
        ::mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0 ||
        ::mount(outside.c_str(), path().c_str(), nullptr, MS_BIND, nullptr) != 0) {
      ::_exit(kMayNotMount);
    }
    WholeFile file(path());
    file.write("new text");
    ::_exit(file.keep() && contents(path()) == "new text" ? 0 : 1);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  ASSERT_TRUE(WIFEXITED(status));
  if (WEXITSTATUS(status) == kMayNotMount) GTEST_SKIP() << "this process may not mount";
  EXPECT_EQ(WEXITSTATUS(status), 0);
  EXPECT_EQ(contents(outside), "new text");
}

}  // namespace
}  // namespace ebbtide::metrics
