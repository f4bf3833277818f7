#include "observe/memory_snapshots.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <string>

namespace ebbtide::plugin {
namespace {

namespace fs = std::filesystem;

class MemorySnapshot : public testing::Test {
 protected:
  MemorySnapshot()
      : path_((fs::temp_directory_path() /
               ("ebbtide-" + std::to_string(::getpid()) + "-" +
                testing::UnitTest::GetInstance()->current_test_info()->name() + ".pickle"))
                  .string()) {}
  ~MemorySnapshot() override { fs::remove(path_); }

  const std::string path_;
  CurrentConfig config_;
  TrainedMemory memory_{config_};
  MemorySnapshots snapshots_{config_, memory_,
                             [](const std::string& text) { ADD_FAILURE() << text; }};
};

TEST_F(MemorySnapshot, OfAStepThatTheEndCutsShortIsWritten) {
  ASSERT_EQ(snapshots_.start(path_).error, "");
  snapshots_.beginStep(1);
  snapshots_.endEarly();
  snapshots_.finish();
  EXPECT_TRUE(fs::exists(path_));
}

// From the end's begin on, while other threads may still train.
TEST_F(MemorySnapshot, AskedForAfterTheEndBeganIsRefused) {
  snapshots_.endEarly();
  EXPECT_EQ(snapshots_.start(path_).error, "training has ended");
  snapshots_.beginStep(1);
  snapshots_.endStep(1);
  snapshots_.finish();
  EXPECT_FALSE(fs::exists(path_));
  EXPECT_EQ(snapshots_.start(path_).error, "training has ended");
}

}  // namespace
}  // namespace ebbtide::plugin
