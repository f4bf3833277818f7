// What is left of a session's planning when the program ends.
#include <chrono>
#include <filesystem>
#include <fstream>
#include <thread>

#include "controlled_session.hpp"
#include "plan_search.hpp"

namespace ebbtide::plugin {
namespace {

// Has the planning thread something to do just now?
bool planningThreadRuns() {
  for (const auto& task : std::filesystem::directory_iterator("/proc/self/task")) {
    std::string stat;
    std::getline(std::ifstream(task.path() / "stat"), stat);
    if (stat.find("(ebbtide-plan) R") != std::string::npos) return true;
  }
  return false;
}

class SessionExitTest : public test::ControlledSession {};

// This planner searches for the 2.5 s that a plan may take, if nothing ends it.
TEST_F(SessionExitTest, ASearchThatNobodyWaitsForEndsAndSaysNothing) {
  config_.planner = "moccasin-local";
  config_.log_level = "info";
  begin(plain_bytes_ - saved_bytes_ / 2);
  testing::internal::CaptureStderr();
  step();
  const auto latest = std::chrono::steady_clock::now() + std::chrono::seconds(30);
  bool begun = false;
  while (!begun && std::chrono::steady_clock::now() < latest) begun = planningThreadRuns();
  ASSERT_TRUE(begun) << "no search was begun";
  const auto before = std::chrono::steady_clock::now();
  session_->shutdown();
  const auto took = std::chrono::steady_clock::now() - before;
  const std::string said = testing::internal::GetCapturedStderr();
  EXPECT_LT(took, PlanSearch::Options{}.planning_time / 2);
  EXPECT_EQ(said.find("plan by"), std::string::npos) << said;
  EXPECT_EQ(said.find("warning"), std::string::npos) << said;
}

}  // namespace
}  // namespace ebbtide::plugin
