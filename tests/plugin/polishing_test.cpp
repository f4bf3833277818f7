#include "runtime/planning/polishing.hpp"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>

#include "runtime/planning/planning_thread.hpp"

namespace ebbtide::plugin {
namespace {

// A search waits in it until it is opened.
class Gate {
 public:
  void pass() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return open_; });
  }
  void open() {
    const std::scoped_lock lock(mutex_);
    open_ = true;
    changed_.notify_all();
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool open_ = false;
};

Planned foundBy(const std::string& planner) {
  Planned found;
  found.result.planner = planner;
  return found;
}

TEST(PolishingTest, IsUnderWayUntilWhatItFoundIsTaken) {
  Polishing polishing;
  EXPECT_FALSE(polishing.isUnderWay());
  EXPECT_FALSE(polishing.isOver());
  Gate gate;
  polishing.begin([&gate] {
    gate.pass();
    return foundBy("it");
  });
  EXPECT_TRUE(polishing.isUnderWay());
  EXPECT_FALSE(polishing.isOver());
  gate.open();
  EXPECT_EQ(polishing.take().result.planner, "it");
  EXPECT_FALSE(polishing.isUnderWay());
  EXPECT_FALSE(polishing.isOver());
}

// A search that has ended is over, though nobody has taken its result.
TEST(PolishingTest, IsOverAfterItsSearch) {
  Polishing polishing;
  polishing.begin([] { return foundBy("it"); });
  while (!polishing.isOver()) std::this_thread::yield();
  EXPECT_TRUE(polishing.isUnderWay());
  EXPECT_EQ(polishing.take().result.planner, "it");
}

TEST(PolishingTest, RunsOnAPlanningThreadOfItsOwn) {
  Polishing polishing;
  std::thread::id thread = std::this_thread::get_id();
  bool plans = false;
  polishing.begin([&] {
    thread = std::this_thread::get_id();
    plans = onPlanningThread();
    return Planned();
  });
  polishing.take();
  EXPECT_NE(thread, std::this_thread::get_id());
  EXPECT_TRUE(plans);
  EXPECT_FALSE(onPlanningThread());
}

int niceOfThisThread() {
  return getpriority(PRIO_PROCESS, static_cast<id_t>(::gettid()));
}

// No other thread has: neither who begins it nor who is begun after it.
TEST(PolishingTest, HasTheLowestPriorityAlone) {
  const int before = niceOfThisThread();
  int nice = 0, of_next = 0;
  Polishing polishing;
  polishing.begin([&nice] {
    nice = niceOfThisThread();
    return Planned();
  });
  polishing.take();
  std::thread([&of_next] { of_next = niceOfThisThread(); }).join();
  EXPECT_EQ(nice, 19);
  EXPECT_EQ(niceOfThisThread(), before);
  EXPECT_EQ(of_next, before);
}

// The next one is not told of it.
TEST(PolishingTest, ThrowsWhatItsSearchThrew) {
  Polishing polishing;
  polishing.begin([]() -> Planned { throw std::runtime_error("it failed"); });
  EXPECT_THROW(polishing.take(), std::runtime_error);
  polishing.begin([] { return foundBy("another"); });
  EXPECT_EQ(polishing.take().result.planner, "another");
}

TEST(PolishingTest, IsWaitedForNoLongerThanAsked) {
  Polishing polishing;
  EXPECT_TRUE(polishing.endsWithin(std::chrono::milliseconds(0)));  // there is none
  Gate gate;
  polishing.begin([&gate] {
    gate.pass();
    return foundBy("it");
  });
  EXPECT_FALSE(polishing.endsWithin(std::chrono::milliseconds(1)));
  EXPECT_TRUE(polishing.isUnderWay());
  gate.open();
  EXPECT_TRUE(polishing.endsWithin(std::chrono::minutes(10)));
  EXPECT_EQ(polishing.take().result.planner, "it");
}

// This search would never end.
TEST(PolishingDeathTest, TheProcessMayEndBeforeTheSearch) {
  EXPECT_EXIT(
      {
        static auto& gate = *new Gate;  // leaked, as the session is
        static auto& polishing = *new Polishing;
        polishing.begin([] {
          gate.pass();
          return Planned();
        });
        if (!polishing.endsWithin(std::chrono::milliseconds(1))) std::exit(0);
      },
      testing::ExitedWithCode(0), "");
}

// Its thread may run much later.
TEST(PolishingTest, HoldsNothingOfItsSearchOnceThatIsTaken) {
  auto graph = std::make_shared<int>(1);
  const std::weak_ptr<int> known = graph;
  Polishing polishing;
  polishing.begin([graph = std::move(graph)] { return foundBy(std::to_string(*graph)); });
  EXPECT_EQ(polishing.take().result.planner, "1");
  EXPECT_TRUE(known.expired());
}

TEST(PolishingTest, IsWaitedForWhereNobodyTakesWhatItFinds) {
  bool ended = false;
  {
    Polishing polishing;
    polishing.begin([&ended] {
      ended = true;
      return Planned();
    });
  }
  EXPECT_TRUE(ended);
}

}  // namespace
}  // namespace ebbtide::plugin
