#include "runtime/run/run_files.hpp"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <string>
#include <thread>
#include <vector>

namespace ebbtide::plugin {
namespace {

class RunFilesTest : public testing::Test {
 protected:
  RunFilesTest()
      : folder_(std::filesystem::path(testing::TempDir()) /
                ("ebbtide-files-" + std::to_string(::getpid()) + "-" +
                 testing::UnitTest::GetInstance()->current_test_info()->name())) {
    std::filesystem::create_directories(folder_);
  }
  ~RunFilesTest() override { std::filesystem::remove_all(folder_); }

  void reportTo(const std::string& path) {
    Config config;
    config.files.report = path;
    config_.change(config);
  }

  std::filesystem::path folder_;
  std::vector<std::string> warned_;
  CurrentConfig config_;
  RunFiles files_{config_, [this](const std::string& text) { warned_.push_back(text); }};
};

// Its folder is missing, then there, then gone again.
TEST_F(RunFilesTest, ALostReportIsToldOnceUntilOneIsWritten) {
  const std::filesystem::path later = folder_ / "later";
  reportTo((later / "report.json").string());
  for (int i = 0; i < 2; ++i) files_.writeReport("{}");
  EXPECT_EQ(warned_.size(), 1U);
  std::filesystem::create_directories(later);
  files_.writeReport("{}");
  EXPECT_TRUE(std::filesystem::exists(later / "report.json"));
  std::filesystem::remove_all(later);
  files_.writeReport("{}");
  EXPECT_EQ(warned_.size(), 2U);
}

TEST_F(RunFilesTest, NoReportIsDueWhereNoneIsAskedFor) {
  EXPECT_EQ(files_.nextReport(), RunFiles::Time::max());
}

TEST_F(RunFilesTest, AReportIsWrittenOnceAStepIsOver) {
  reportTo((folder_ / "report.json").string());
  EXPECT_FALSE(files_.takesReport(/*any_step=*/false));
  const RunFiles::Time first = files_.nextReport();
  EXPECT_TRUE(files_.takesReport(/*any_step=*/true));
  const auto now = std::chrono::steady_clock::now();
  EXPECT_GT(files_.nextReport(), first);  // 10 s then, 1 s before
  EXPECT_LE(files_.nextReport(), now + std::chrono::seconds(10));
}

// The loop asks each second whether the step is over, and writes every fifth time.
TEST_F(RunFilesTest, AFirstStepThatLastsLeavesOneToo) {
  reportTo((folder_ / "report.json").string());
  EXPECT_FALSE(files_.takesReport(/*any_step=*/false));
  std::this_thread::sleep_until(files_.nextReport());  // 1 s
  EXPECT_TRUE(files_.takesReport(/*any_step=*/false));
  EXPECT_FALSE(files_.takesReport(/*any_step=*/false));
}

// A reader takes the first one for all there is.
TEST_F(RunFilesTest, APipeIsWrittenAtTheEndAlone) {
  const std::string pipe = (folder_ / "pipe").string();
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  reportTo(pipe);
  EXPECT_FALSE(files_.takesReport(/*any_step=*/true));
}

}  // namespace
}  // namespace ebbtide::plugin
