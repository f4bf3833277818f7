// What is left of a session's planning when the program ends.
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>

#include "controlled_session.hpp"

namespace ebbtide::plugin {
namespace {

// Processor time of the planning thread, in clock ticks.
std::int64_t planningTicks() {
  const std::string name = "(ebbtide-plan)";
  for (const auto& task : std::filesystem::directory_iterator("/proc/self/task")) {
    std::string stat;
    std::getline(std::ifstream(task.path() / "stat"), stat);
    const auto at = stat.find(name);
    if (at == std::string::npos) continue;
    std::istringstream fields(stat.substr(at + name.size()));
    std::string field;
    for (int i = 0; i < 11; ++i) fields >> field;  // from its state to its major faults
    std::int64_t user = 0, system = 0;
    fields >> user >> system;
    return user + system;
  }
  return 0;
}

class SessionExitTest : public test::ControlledSession {
 protected:
  // Has the search begun? What comes before it takes milliseconds of the planning thread's time,
  // with a sanitizer a tenth of a second.
  static bool searchesSince(std::int64_t ticks) {
    const std::int64_t enough = ticks + ::sysconf(_SC_CLK_TCK);
    return comesTrue([enough] { return planningTicks() >= enough; });
  }
};

// This planner searches for as long as a plan may take, if nothing ends it: a day, longer than any
// test may run. Its plan would be said, so that the first part saw it end too soon.
TEST_F(SessionExitTest, ASearchThatNobodyWaitsForEndsAndSaysNothing) {
  config_.planner = "moccasin-local";
  config_.planning_work.reset();
  config_.log_level = "info";
  begin(plain_bytes_ - saved_bytes_ / 2);
  const std::int64_t before = planningTicks();
  testing::internal::CaptureStderr();
  step();
  const bool searches = searchesSince(before);
  const std::string open = testing::internal::GetCapturedStderr();
  ASSERT_TRUE(searches);
  ASSERT_EQ(open.find("plan by"), std::string::npos) << open;
  testing::internal::CaptureStderr();
  session_->shutdown();
  std::istringstream closing(testing::internal::GetCapturedStderr());
  int lines = 0;
  for (std::string line; std::getline(closing, line); ++lines)  // the run's own line alone
    EXPECT_NE(line.find("ended after 1 step"), std::string::npos) << line;
  EXPECT_EQ(lines, 1);
}

}  // namespace
}  // namespace ebbtide::plugin
