#include "runtime/planning/polishing_pace.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <random>

#include "base/processor_time.hpp"
#include "runtime/planning/planning_allowance.hpp"

namespace ebbtide::plugin {
namespace {

using std::chrono::milliseconds;
using std::chrono::nanoseconds;
using std::chrono::seconds;

TEST(PolishingPaceTest, EndsBySearchesOwnProcessorTime) {
  nanoseconds used = milliseconds(5000);
  PolishingPace pace({.used = [&used] { return used; }, .left = {}, .wait = {}});
  pace.begin(milliseconds(2000));
  EXPECT_FALSE(pace.isOver());
  used = milliseconds(6999);
  EXPECT_FALSE(pace.isOver());
  used = milliseconds(7000);
  EXPECT_TRUE(pace.isOver());
  pace.begin(milliseconds(1));
  EXPECT_FALSE(pace.isOver());
  used = milliseconds(7001);
  EXPECT_TRUE(pace.isOver());
}

// A second, and a fiftieth of 10 s, less 0.3 s.
TEST(PlanningAllowanceTest, IsASecondAndAFiftiethOfTheProcess) {
  nanoseconds process{}, planning{};
  const PlanningAllowance allowance([&process] { return process; },
                                    [&planning] { return planning; });
  EXPECT_EQ(allowance.left(), seconds(1));
  process = seconds(10);
  planning = milliseconds(300);
  EXPECT_EQ(allowance.left(), milliseconds(900));
  planning = seconds(3);  // of first plans, say
  EXPECT_EQ(allowance.left(), -milliseconds(1800));
}

// A process whose searches for better plans use the processor, and which trains while one waits.
class PacedSearch : public testing::Test {
 protected:
  // The search uses so much from one question to the next.
  void use(nanoseconds time) {
    used_ += time;
    process_ += time;
  }
  nanoseconds most() const { return PlanningAllowance::kAtFirst + process_ / 50; }

  nanoseconds used_{}, others_{}, process_{};
  nanoseconds trained_a_wait_ = milliseconds(20);
  int waits_ = 0, most_waits_ = 1'000'000;
  const PlanningAllowance allowance_{[this] { return process_; },
                                     [this] { return used_ + others_; }};
  PolishingPace pace_{{.used = [this] { return used_; },
                       .left = [this] { return allowance_.left(); },
                       .wait =
                           [this] {
                             EXPECT_TRUE(pace_.waits());
                             process_ += trained_a_wait_;
                             return ++waits_ <= most_waits_;
                           }}};
};

// It waits, and has all of its time in the end. When it goes on for the last time, less than 3 ms
// before that is over, 3 ms are there: what is beyond the first second is 2 s and less than 3 ms, a
// fiftieth of 100 s and less than 0.15 s.
TEST_F(PacedSearch, NeverHasMoreThanIsAllowedAndAllOfItsTimeInTheEnd) {
  std::mt19937_64 random(1);
  pace_.begin(seconds(3));
  use(milliseconds(2));  // the longest that it is not asked for
  while (!pace_.isOver()) {
    EXPECT_LE(used_, most());
    use(nanoseconds(1 + random() % 2'000'000));
    EXPECT_LE(used_, most());
  }
  EXPECT_GE(used_, seconds(3));
  EXPECT_LT(used_, seconds(3) + milliseconds(2));
  EXPECT_GE(process_, seconds(100));
  EXPECT_LE(process_, seconds(101));
}

TEST_F(PacedSearch, WaitsForNothingWhileThereIsEnough) {
  process_ = seconds(1000);  // 21 s are left
  pace_.begin(seconds(3));
  while (!pace_.isOver()) use(milliseconds(1));
  EXPECT_EQ(waits_, 0);
}

// Of first plans of many programs.
TEST_F(PacedSearch, WaitsForWhatWasNotRefused) {
  others_ = seconds(2);
  pace_.begin(seconds(3));
  EXPECT_FALSE(pace_.isOver());
  // 1 s too much and 2 ms, that are there when it goes on: 50.1 s, in waits of 20 ms.
  EXPECT_EQ(waits_, 2505);
  EXPECT_FALSE(pace_.waits());
}

TEST_F(PacedSearch, IsOverOnceNobodyWaitsForIt) {
  others_ = seconds(2);
  most_waits_ = 3;
  pace_.begin(seconds(3));
  EXPECT_TRUE(pace_.isOver());
  EXPECT_EQ(waits_, 4);
  EXPECT_FALSE(pace_.waits());
}

TEST_F(PacedSearch, ThatIsNeededWaitsNoMore) {
  others_ = seconds(2);
  pace_.hurry(true);
  pace_.begin(seconds(3));
  while (!pace_.isOver()) use(milliseconds(1));
  EXPECT_EQ(waits_, 0);
  EXPECT_EQ(used_, seconds(3));
  pace_.hurry(false);
  pace_.begin(seconds(3));
  EXPECT_FALSE(pace_.isOver());
  EXPECT_GT(waits_, 0);
}

TEST(ProcessorTimeTest, OfAThreadIsPartOfTheProcess) {
  const auto before = ProcessorTime::ofThread();
  while (ProcessorTime::ofThread() == before) {
  }
  const auto thread = ProcessorTime::ofThread();
  EXPECT_GT(thread, before);
  EXPECT_GE(ProcessorTime::ofProcess(), thread);
}

}  // namespace
}  // namespace ebbtide::plugin
