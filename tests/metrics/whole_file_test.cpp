#include "ebbtide/metrics/whole_file.hpp"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <string>

namespace ebbtide::metrics {
namespace {

namespace fs = std::filesystem;

class WholeFileTest : public testing::Test {
 protected:
  WholeFileTest() {
    std::string name = (fs::temp_directory_path() / "ebbtide-whole-XXXXXX").string();
    folder_ = ::mkdtemp(name.data());
  }
  ~WholeFileTest() override { fs::remove_all(folder_); }

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
  static void writeOld(const std::string& path) { std::ofstream(path) << "old"; }

  fs::path folder_;
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
      return WholeFile(path(), mode).keep() && modeOf(path()) == expected;
    });
  };
  EXPECT_TRUE(modeWith(WholeFile::kForTheUser, 022, 0600));
  EXPECT_TRUE(modeWith(WholeFile::kForReaders, 002, 0644));
  EXPECT_TRUE(modeWith(WholeFile::kForReaders, 077, 0600));
  EXPECT_TRUE(modeWith(WholeFile::kAsUsual, 027, 0640));
}

// A disk that takes 4 bytes more, as far as this process is concerned.
TEST_F(WholeFileTest, AFullDiskLeavesWhatWasThere) {
  writeOld(path());
  EXPECT_TRUE(inChild([this] {
    ::signal(SIGXFSZ, SIG_IGN);
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

// As /dev/stdout is: whoever may write in /dev does not lose it.
TEST_F(WholeFileTest, ALinkOfOnesOwnStays) {
  const std::string target = (folder_ / "target").string();
  writeOld(target);
  fs::create_symlink(target, path());
  WholeFile file(path());
  file.write("n");
  EXPECT_TRUE(file.keep());
  EXPECT_TRUE(fs::is_symlink(path()));
  EXPECT_EQ(contents(target), "n");
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

}  // namespace
}  // namespace ebbtide::metrics
