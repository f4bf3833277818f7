// Searches that end by a pace in place of the clock.
#include "ebbtide/scheduler/search_pace.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <fstream>
#include <iterator>
#include <string>
#include <thread>
#include <vector>

#include "ebbtide/scheduler/graph_builder.hpp"
#include "ebbtide/scheduler/step_search.hpp"
#include "honest_plan.hpp"

namespace ebbtide::scheduler {
namespace {

class CountedPace : public SearchPace {
 public:
  explicit CountedPace(int most) : most_(most) {}

  void begin(std::chrono::nanoseconds longest) override { begun.push_back(longest); }
  bool isOver() override { return ++asked > most_; }

  std::vector<std::chrono::nanoseconds> begun;
  int asked = 0;

 private:
  const int most_;
};

class SearchPaceTest : public testing::Test {
 protected:
  SearchPaceTest() {
    std::ifstream file(std::string(EBBTIDE_TEST_DATA) + "/gpt_step.json");
    trace_ =
        traceFromJson({std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()});
    trace_.host = {};  // one search a plan
    plain_ = buildGraph(trace_);
    const Bytes peak = simulate(plain_.graph, keepEverything(plain_.graph)).peak_bytes;
    budget_ = (peak + peakLowerBound(plain_.graph)) / 2;
  }

  PlannedStep best(const StepSearch::Options& options) const {
    return StepSearch(options, nullptr).best(trace_, plain_, budget_);
  }

  Trace trace_;
  TraceGraph plain_;
  Bytes budget_ = 0;
};

TEST_F(SearchPaceTest, OneThatIsOverEndsTheSearchWithWhatItHas) {
  CountedPace pace(0);
  const PlannedStep found = best({.planning_time = std::chrono::milliseconds(1234), .pace = &pace});
  expectHonest(found.step.graph, budget_, found.result);
  EXPECT_FALSE(found.result.feasible);
  EXPECT_EQ(found.result.schedule.steps, keepEverything(found.step.graph).steps);
  EXPECT_EQ(pace.begun, std::vector<std::chrono::nanoseconds>{std::chrono::milliseconds(1234)});
}

// In no time at all by the clock, which is not asked.
TEST_F(SearchPaceTest, OneThatIsNeverOverLeavesTheSearchItsWork) {
  CountedPace pace(1'000'000'000);
  const PlannedStep paced = best({.planner = "greedy",
                                  .planning_time = std::chrono::milliseconds(0),
                                  .work = 100'000,
                                  .pace = &pace});
  const PlannedStep timed =
      best({.planner = "greedy", .planning_time = std::chrono::hours(24), .work = 100'000});
  EXPECT_TRUE(paced.result.feasible);
  EXPECT_EQ(paced.result.schedule.steps, timed.result.schedule.steps);
  EXPECT_GT(pace.asked, 0);
}

// It is never over, and knows who asks.
class OwnPace : public SearchPace {
 public:
  void begin(std::chrono::nanoseconds) override {}
  bool isOver() override {
    ++(std::this_thread::get_id() == own_ ? asked : asked_by_others);
    return false;
  }

  std::atomic<int> asked{0}, asked_by_others{0};

 private:
  const std::thread::id own_ = std::this_thread::get_id();
};

TEST_F(SearchPaceTest, IsAskedByTheThreadThatPlansAlone) {
  OwnPace pace;
  PlannerOptions options;
  options.threads = 4;
  options.named["work"] = "1000";
  options.pace = &pace;
  expectHonest(plain_.graph, budget_,
               planner("moccasin-local").plan(plain_.graph, budget_, options));
  EXPECT_GT(pace.asked, 0);
  EXPECT_EQ(pace.asked_by_others, 0);
}

TEST_F(SearchPaceTest, APlanThatIsFoundAtOnceHasNone) {
  CountedPace pace(0);
  const StepSearch search({.work = 1, .pace = &pace}, nullptr);
  const auto found = search.first(trace_, plain_, budget_);
  ASSERT_TRUE(found);
  EXPECT_TRUE(found->result.feasible);
  EXPECT_TRUE(pace.begun.empty());
  EXPECT_EQ(pace.asked, 0);
}

}  // namespace
}  // namespace ebbtide::scheduler
