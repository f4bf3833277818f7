#include "ebbtide/metrics/series_file.hpp"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <thread>

#include "private_folder.hpp"

namespace ebbtide::metrics {
namespace {

namespace fs = std::filesystem;

class SeriesFileTest : public testing::Test {
 protected:
  std::string path() const { return (folder_ / "rank-0.prom").string(); }
  std::string contents() const {
    std::ifstream file(path());
    return {std::istreambuf_iterator<char>(file), {}};
  }
  std::ptrdiff_t files() const {
    return std::distance(fs::directory_iterator(folder_), fs::directory_iterator());
  }

  const SeriesFile::Time now_ = std::chrono::steady_clock::now();
  const test::PrivateFolder own_;
  const fs::path folder_ = own_.path();
};

TEST_F(SeriesFileTest, IsWrittenWholeAndAgainAfterTheInterval) {
  SeriesFile file(path());
  EXPECT_LE(file.due(), now_);
  EXPECT_EQ(file.write("one\n", now_), std::nullopt);
  EXPECT_EQ(contents(), "one\n");
  EXPECT_EQ(file.due(), now_ + SeriesFile::kInterval);
  EXPECT_EQ(file.write("2\n", file.due()), std::nullopt);
  EXPECT_EQ(contents(), "2\n");
  EXPECT_EQ(files(), 1);  // nothing is left beside it
  struct stat status {};
  ASSERT_EQ(::stat(path().c_str(), &status), 0);
  const mode_t mask = ::umask(0);
  ::umask(mask);
  EXPECT_EQ(status.st_mode & 0777, 0644 & ~mask);  // for a collector that is another user
}

// Each text is one letter, 100,000 times: a reader never sees two, nor fewer.
TEST_F(SeriesFileTest, AReaderSeesOneTextOrTheOther) {
  SeriesFile file(path());
  file.write(std::string(100'000, 'a'), now_);
  std::atomic<bool> done{false};
  std::thread writer([&] {
    for (int i = 0; i < 300; ++i) file.write(std::string(100'000, i % 2 == 0 ? 'b' : 'a'), now_);
    done = true;
  });
  while (!done) {
    const std::string text = contents();
    ASSERT_EQ(text, std::string(100'000, text.empty() ? '?' : text[0]));
  }
  writer.join();
}

TEST_F(SeriesFileTest, AFolderThatIsGoneIsSaidOnceUntilItIsBack) {
  SeriesFile file(path());
  fs::remove_all(folder_);
  const auto first = file.write("one\n", now_);
  ASSERT_TRUE(first.has_value());
  EXPECT_EQ(*first, "No such file or directory");
  EXPECT_EQ(file.due(), now_ + SeriesFile::kInterval);  // no sooner than otherwise
  EXPECT_EQ(file.write("one\n", now_), std::nullopt);
  fs::create_directory(folder_);
  EXPECT_EQ(file.write("one\n", now_), std::nullopt);
  EXPECT_EQ(contents(), "one\n");  // back again
  fs::remove_all(folder_);
  EXPECT_TRUE(file.write("two\n", now_).has_value());  // another time
  EXPECT_EQ(file.write("two\n", now_), std::nullopt);
}

// A disk that takes 4 bytes more, as far as this process is concerned.
TEST_F(SeriesFileTest, AFullDiskLeavesWhatWasThere) {
  SeriesFile file(path());
  file.write("old\n", now_);
  const pid_t child = ::fork();
  if (child == 0) {
    ::signal(SIGXFSZ, SIG_IGN);
    const rlimit four{4, 4};
    ::setrlimit(RLIMIT_FSIZE, &four);
    const auto problem = file.write("longer than that\n", now_);
    ::_exit(problem == "File too large" ? 0 : 1);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  EXPECT_EQ(WEXITSTATUS(status), 0);
  EXPECT_EQ(contents(), "old\n");
  EXPECT_EQ(files(), 1);
}

}  // namespace
}  // namespace ebbtide::metrics
