#include "eviction_costs.hpp"

#include <gtest/gtest.h>

namespace ebbtide::plugin {
namespace {

TEST(RateMeter, AssumesUntilItHasMeasured) {
  RateMeter meter(2.0);
  EXPECT_DOUBLE_EQ(meter.nanosecondsFor(1000), 500);
  meter.add(4000, 1000);  // 4 bytes a nanosecond
  EXPECT_DOUBLE_EQ(meter.nanosecondsFor(1000), 250);
}

// 1 GiB in 2^30 ns, again and again: 1 byte a nanosecond. From then on 4 bytes a nanosecond; the
// old ones are halved each time that more than 2 GiB are remembered, so after ten more, in which
// they have been halved five times at least, they hardly count.
TEST(RateMeter, ForgetsWhatIsOld) {
  constexpr std::int64_t kGib = std::int64_t{1} << 30;
  RateMeter meter(2.0);
  for (int i = 0; i < 4; ++i) meter.add(kGib, kGib);
  EXPECT_DOUBLE_EQ(meter.nanosecondsFor(kGib), static_cast<double>(kGib));
  for (int i = 0; i < 10; ++i) meter.add(kGib, kGib / 4);
  EXPECT_NEAR(meter.nanosecondsFor(1000), 250, 25);
}

TEST(EvictionCosts, ADropIsSummedTwice) {
  EvictionCosts costs;
  costs.checksum.add(1000, 100);
  EXPECT_DOUBLE_EQ(costs.checksumsNs(2000), 2 * 200);
}

// Three quarters of what the larger of both leaves: of 400, of 400 - 240, of 400 - 320, of nothing.
TEST(EvictionCosts, TransientBytesArePartOfWhatIsLeft) {
  EvictionCosts costs;
  EXPECT_EQ(costs.transientBytes(400, 0), 300);
  costs.noteUnevictable(240);
  EXPECT_EQ(costs.transientBytes(400, 80), 120);
  EXPECT_EQ(costs.transientBytes(400, 320), 60);
  costs.noteUnevictable(120);  // less than before
  EXPECT_EQ(costs.transientBytes(400, 0), 120);
  costs.noteUnevictable(430);
  EXPECT_EQ(costs.transientBytes(400, 0), 0);
}

// Cheap, large and long unread goes first.
TEST(EvictionScore, IsCostOverSizeAndTime) {
  EXPECT_DOUBLE_EQ(evictionScore(600, 100, 3), 2);
  EXPECT_LT(evictionScore(600, 200, 3), evictionScore(600, 100, 3));
  EXPECT_LT(evictionScore(600, 100, 4), evictionScore(600, 100, 3));
  EXPECT_LT(evictionScore(500, 100, 3), evictionScore(600, 100, 3));
  EXPECT_DOUBLE_EQ(evictionScore(600, 0, 0), 600);  // never divides by nothing
}

}  // namespace
}  // namespace ebbtide::plugin
