// What is left of a session's planning when the program ends.
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <future>
#include <sstream>
#include <string>

#include "controlled_session.hpp"
#include "held_search.hpp"

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

// Heeds no end but its own: the session's end waits for it.
class DeafSearch : public scheduler::Planner {
 public:
  scheduler::PlannerInfo info() const override { return {"deaf", "this test", "none"}; }
  scheduler::PlanResult plan(const scheduler::Graph& graph, scheduler::Bytes budget_bytes,
                             const scheduler::PlannerOptions&) const override {
    begun_ = true;
    released_.wait(false);
    return test::HeldSearch::everything(graph, budget_bytes);
  }

  bool hasBegun() const { return begun_; }
  void release() {
    released_ = true;
    released_.notify_all();
  }

 private:
  mutable std::atomic<bool> begun_{false}, released_{false};
};

class SessionExitTest : public test::ControlledSession {
 protected:
  // After a failed assertion, too: the session's end waits for the search, which it knows.
  void TearDown() override {
    deaf_search_.release();
    if (session_) session_->shutdown();
    session_.reset();
  }
  // Has the search begun? What comes before it takes milliseconds of the planning thread's time,
  // with a sanitizer a tenth of a second.
  static bool searchesSince(std::int64_t ticks) {
    const std::int64_t enough = ticks + ::sysconf(_SC_CLK_TCK);
    return comesTrue([enough] { return planningTicks() >= enough; });
  }

  DeafSearch deaf_search_;
};

// This planner searches for as long as a plan may take, if nothing ends it: a day, longer than any
// test may run. Its plan would be said, so that the first part saw it end too soon.
TEST_F(SessionExitTest, ASearchThatNobodyWaitsForEndsAndSaysNothing) {
  config_.planning.planner = "moccasin-local";
  config_.planning.work.reset();
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

// An exit function ends the run; then a signal's thread, or a timer, does, and the process after
// it.
TEST_F(SessionExitTest, WhoEndsItSecondFindsTheReport) {
  searches_ = &deaf_search_;
  const std::filesystem::path report =
      std::filesystem::path(testing::TempDir()) / (folder_.filename().string() + "-report.json");
  config_.files.report = report.string();
  begin(plain_bytes_ - saved_bytes_ / 2);
  step();
  ASSERT_TRUE(comesTrue([this] { return deaf_search_.hasBegun(); }));
  const auto ended = [this] { return session_->view(session_->guard().hold()).process.ended; };
  auto first = std::async(std::launch::async, [this] { session_->shutdown(); });
  const bool ends = comesTrue(ended);
  auto second = std::async(std::launch::async, [this, &report] {
    session_->shutdown();
    return std::filesystem::exists(report);
  });
  EXPECT_EQ(second.wait_for(std::chrono::milliseconds(50)), std::future_status::timeout);
  deaf_search_.release();
  first.get();
  EXPECT_TRUE(ends);
  EXPECT_TRUE(second.get());
  std::filesystem::remove(report);
}

}  // namespace
}  // namespace ebbtide::plugin
