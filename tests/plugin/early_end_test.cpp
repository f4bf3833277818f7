// A process that ends in the midst of its program.
#include "runtime/run/early_end.hpp"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

namespace ebbtide::plugin {
namespace {

using std::chrono::milliseconds;

class EarlyEndTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string path = testing::TempDir() + "/early-end-XXXXXX";
    ASSERT_NE(::mkdtemp(path.data()), nullptr);
    folder_ = path;
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  std::string folder_;
};

int endOf(pid_t child) {
  int status = 0;
  EXPECT_EQ(::waitpid(child, &status, 0), child);
  return status;
}

// The second of two ranks comes later; both end by themselves, the first not before the other.
TEST_F(EarlyEndTest, WaitsForTheOtherRanks) {
  const auto rank = [&](int number) {
    const pid_t child = ::fork();
    if (child != 0) return child;
    EarlyEnd::leaveBy(nullptr);
    std::atexit([] { std::_Exit(7); });  // exit handlers run
    if (number == 1) ::usleep(200'000);
    if (number == 1) std::ofstream(folder_ + "/second") << "began";
    EarlyEnd::end(folder_, 2, std::chrono::minutes(10));  // however late the second one runs
    std::_Exit(1);
  };
  const pid_t first = rank(0);
  const pid_t second = rank(1);
  EXPECT_EQ(WEXITSTATUS(endOf(first)), 7);
  EXPECT_TRUE(std::filesystem::exists(folder_ + "/second"));
  EXPECT_EQ(WEXITSTATUS(endOf(second)), 7);
}

// The other one trains, and ends later than `most`, which is 0.
TEST_F(EarlyEndTest, WaitsLongerForARankThatTrains) {
  int pipe[2];
  ASSERT_EQ(::pipe(pipe), 0);
  const pid_t child = ::fork();
  if (child == 0) {
    EarlyEnd::noteTraining(folder_);
    if (::write(pipe[1], "t", 1) != 1) std::_Exit(1);
    ::usleep(200'000);
    std::ofstream(folder_ + "/" + std::to_string(::getpid()) + ".ended").close();
    ::pause();
  }
  char letter = 0;
  EXPECT_EQ(::read(pipe[0], &letter, 1), 1);
  EarlyEnd::waitForOthers(folder_, 1, milliseconds(0), std::chrono::minutes(10));
  EXPECT_TRUE(std::filesystem::exists(folder_ + "/" + std::to_string(child) + ".ended"));
  ::kill(child, SIGKILL);
  endOf(child);
  for (const int end : pipe) ::close(end);
}

// It crashed, and its parent has not waited for it yet. Its end would be awaited for `late_wait`.
TEST_F(EarlyEndTest, ARankThatCrashedIsNotLate) {
  const pid_t child = ::fork();
  if (child == 0) {
    EarlyEnd::noteTraining(folder_);
    std::_Exit(0);
  }
  siginfo_t ended{};
  ASSERT_EQ(::waitid(P_PID, static_cast<id_t>(child), &ended, WEXITED | WNOWAIT), 0);
  const std::chrono::seconds late_wait(10);
  const auto began = std::chrono::steady_clock::now();
  EarlyEnd::waitForOthers(folder_, 1, milliseconds(0), late_wait);
  EXPECT_LT(std::chrono::steady_clock::now() - began, late_wait);
  EXPECT_TRUE(std::filesystem::exists(folder_ + "/" + std::to_string(child) + ".trains"));
  endOf(child);
}

TEST_F(EarlyEndTest, LeavesAsItsInterpreterDoes) {
  const pid_t child = ::fork();
  if (child == 0) {
    EarlyEnd::leaveBy([] {
      const bool begun = EarlyEnd::begun();
      EarlyEnd::end("", 1);  // an exit function computes: nothing more comes of it
      std::_Exit(begun ? 5 : 6);
    });
    EarlyEnd::end(folder_, 1);
  }
  EXPECT_EQ(WEXITSTATUS(endOf(child)), 5);
}

TEST_F(EarlyEndTest, DoesNotWaitForEver) {
  EarlyEnd::waitForOthers(folder_, 2, milliseconds(1));  // nobody else comes
  EarlyEnd::waitForOthers("/no/such/folder", 2, milliseconds(1));
  EarlyEnd::announce(folder_);
  EXPECT_TRUE(std::filesystem::exists(folder_ + "/loaded"));
}

}  // namespace
}  // namespace ebbtide::plugin
