// A process that ends in the midst of its program.
#include "runtime/early_end.hpp"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

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
    EarlyEnd::end(folder_, 2);
    std::_Exit(1);
  };
  const pid_t first = rank(0);
  const pid_t second = rank(1);
  EXPECT_EQ(WEXITSTATUS(endOf(first)), 7);
  EXPECT_TRUE(std::filesystem::exists(folder_ + "/second"));
  EXPECT_EQ(WEXITSTATUS(endOf(second)), 7);
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
