#include "runtime/output/run_lines.hpp"

#include <gtest/gtest.h>

#include "forked_child.hpp"
#include "runtime/planning/planning_service.hpp"

namespace ebbtide::plugin {
namespace {

class RunLinesTest : public testing::Test {
 protected:
  static Config ofRank(int rank, const std::string& level) {
    Config config;
    config.rank = rank;
    config.log_level = level;
    return config;
  }
  std::string written() const {
    testing::internal::CaptureStderr();
    lines_.say("one");
    lines_.warn("two");
    lines_.debug("three");
    return testing::internal::GetCapturedStderr();
  }

  CurrentConfig config_;
  std::atomic<bool> ends_{false};
  const RunLines lines_{config_, ends_};
};

TEST_F(RunLinesTest, TheLevelSaysWhichAreWritten) {
  const std::string one = "[ebbtide rank 3] one\n", two = "[ebbtide rank 3] warning: two\n",
                    three = "[ebbtide rank 3] debug: three\n";
  const std::pair<const char*, std::string> levels[] = {{"off", ""},
                                                        {"error", ""},
                                                        {"warning", two},
                                                        {"info", one + two},
                                                        {"debug", one + two + three}};
  for (const auto& [level, expected] : levels) {
    config_.change(ofRank(3, level));
    EXPECT_EQ(written(), expected) << level;
  }
}

TEST_F(RunLinesTest, NameTheRankThatItIsTakenToBe) {
  config_.change(ofRank(0, "warning"));
  EXPECT_EQ(written(), "[ebbtide rank 0] warning: two\n");
  config_.change(ofRank(5, "warning"));
  EXPECT_EQ(written(), "[ebbtide rank 5] warning: two\n");
}

TEST_F(RunLinesTest, WhoTellsOnSaysTheSame) {
  config_.change(ofRank(0, "debug"));
  const RunLines::Tell tells[] = {lines_.teller(), lines_.warner(), lines_.debugger()};
  testing::internal::CaptureStderr();
  for (const RunLines::Tell& tell : tells) tell("text");
  EXPECT_EQ(testing::internal::GetCapturedStderr(),
            "[ebbtide rank 0] text\n[ebbtide rank 0] warning: text\n"
            "[ebbtide rank 0] debug: text\n");
}

// In a process of its own, whose lines they stay.
TEST_F(RunLinesTest, ThoseOfTheProcessAreFoundByAnybody) {
  EXPECT_EQ(RunLines::current(), nullptr);
  EXPECT_TRUE(test::holdsInChild([this] {
    lines_.beCurrent();
    return RunLines::current() == &lines_;
  }));
}

// The last line is another thread's.
TEST_F(RunLinesTest, OnceTheRunEndsItsPlanningThreadIsSilent) {
  config_.change(ofRank(0, "debug"));
  ends_ = true;
  std::string of_planning;
  bool said = true, warned = true;
  PlanningService service({}, [](const std::string&) {});
  service.begin([&] {
    of_planning = written();
    said = lines_.say("one");
    warned = lines_.warn("two");
  });
  service.join();
  EXPECT_EQ(of_planning, "");
  EXPECT_FALSE(said || warned);  // who asked may say it later
  EXPECT_NE(written(), "");
}

// It is not awaited any more.
TEST_F(RunLinesTest, ALineThatTheLevelLeavesOutCountsAsSaid) {
  config_.change(ofRank(0, "off"));
  EXPECT_TRUE(lines_.say("one") && lines_.warn("two") && lines_.debug("three"));
}

}  // namespace
}  // namespace ebbtide::plugin
