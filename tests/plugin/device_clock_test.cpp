#include "device/device_clock.hpp"

#include <gtest/gtest.h>

#include <set>

#include "device/host_clock.hpp"

namespace ebbtide::plugin {
namespace {

// Ten nanoseconds between two marks.
class TickingClock final : public DeviceClock {
 public:
  Mark mark() override {
    open.insert(now += 10);
    return now;
  }
  std::int64_t nanosecondsBetween(Mark begin, Mark end) override {
    EXPECT_TRUE(open.contains(begin) && open.contains(end));
    ++read;
    return end - begin;
  }
  void release(Mark mark) noexcept override { EXPECT_EQ(open.erase(mark), 1u); }

  Mark now = 0;
  int read = 0;
  std::set<Mark> open;
};

TEST(TimeSpan, IsReadWhenAskedFor) {
  TickingClock clock;
  TimeSpan span(clock);
  span.end();
  clock.mark();
  EXPECT_EQ(clock.read, 0);
  EXPECT_EQ(span.nanoseconds(), 10);
  EXPECT_EQ(span.nanoseconds(), 10);  // of what was read before
  EXPECT_EQ(clock.read, 1);
  EXPECT_EQ(clock.open.size(), 1u);  // the one between
}

TEST(TimeSpan, GivesItsMarksBackOnce) {
  TickingClock clock;
  {
    TimeSpan never_ended(clock);
    TimeSpan ended(clock);
    ended.end();
    TimeSpan moved(std::move(ended));
    TimeSpan assigned;
    assigned = std::move(moved);
    EXPECT_EQ(clock.open.size(), 3u);
    EXPECT_EQ(never_ended.nanoseconds(), 0);
  }
  EXPECT_TRUE(clock.open.empty());
}

TEST(TimeSpan, EndsOnce) {
  TickingClock clock;
  TimeSpan span(clock);
  span.end();
  span.end();
  EXPECT_EQ(span.nanoseconds(), 10);
  EXPECT_TRUE(clock.open.empty());
}

TEST(TimeSpan, OfNothingTakesNoTime) {
  TimeSpan span;
  span.end();
  EXPECT_EQ(span.nanoseconds(), 0);
}

// The thread says that it spent eleven days on giving values up meanwhile: the span is that much
// less.
TEST(HostClock, LeavesOutWhatGivingUpTook) {
  HostClock clock;
  const auto begin = clock.mark();
  evictionNs() += 1'000'000'000'000'000;  // eleven days
  const auto end = clock.mark();
  evictionNs() -= 1'000'000'000'000'000;
  EXPECT_LT(clock.nanosecondsBetween(begin, end), 0);
}

}  // namespace
}  // namespace ebbtide::plugin
