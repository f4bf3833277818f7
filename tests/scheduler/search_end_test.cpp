#include "base/search_end.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <concepts>

#include "ebbtide/scheduler/placement.hpp"
#include "ebbtide/scheduler/planner.hpp"

namespace ebbtide::scheduler {
namespace {

struct Options {
  Deadline deadline = kNoDeadline;
  const std::atomic<bool>* cancelled = nullptr;
};

struct SecondsAndFlag {
  double deadline = 0;  // seconds
  const std::atomic<bool>* cancelled = nullptr;
};

struct FlagOfItsOwn {
  Deadline deadline = kNoDeadline;
  std::atomic<bool> cancelled = false;
};

static_assert(EndsSearch<PlannerOptions> && EndsSearch<PlacementOptions>);
static_assert(std::convertible_to<Options, SearchEnd>);
// Names alone do not make options of it.
static_assert(!EndsSearch<SecondsAndFlag> && !std::convertible_to<SecondsAndFlag, SearchEnd>);
static_assert(!EndsSearch<FlagOfItsOwn> && !std::convertible_to<FlagOfItsOwn, SearchEnd>);

TEST(SearchEnd, IsNeverWithoutOptions) {
  EXPECT_FALSE(SearchEnd().reached());
  EXPECT_FALSE(SearchEnd(Options()).reached());
}

TEST(SearchEnd, IsReachedAtTheDeadline) {
  const Deadline now = std::chrono::steady_clock::now();
  EXPECT_TRUE(SearchEnd(now).reached());
  EXPECT_TRUE(SearchEnd(Options{.deadline = now}).reached());
  EXPECT_FALSE(SearchEnd(now + std::chrono::hours(1)).reached());
}

TEST(SearchEnd, IsReachedOnceCancelled) {
  std::atomic<bool> cancelled = false;
  const SearchEnd end(Options{.cancelled = &cancelled});
  EXPECT_FALSE(end.reached());
  cancelled = true;
  EXPECT_TRUE(end.reached());
}

class FlagAsPace : public SearchPace {
 public:
  void begin(std::chrono::nanoseconds) override {}
  bool isOver() override { return over; }

  bool over = false;
};

TEST(SearchEnd, IsReachedByThePace) {
  FlagAsPace pace;
  PlannerOptions options;
  options.pace = &pace;
  const SearchEnd end(options);
  EXPECT_FALSE(end.reached());
  pace.over = true;
  EXPECT_TRUE(end.reached());
  EXPECT_FALSE(SearchEnd(PlannerOptions()).reached());
}

}  // namespace
}  // namespace ebbtide::scheduler
