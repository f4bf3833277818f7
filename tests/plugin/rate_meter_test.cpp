#include "base/rate_meter.hpp"

#include <gtest/gtest.h>

namespace ebbtide::plugin {
namespace {

constexpr std::int64_t kRemembered = std::int64_t{2} << 30;

TEST(RateMeter, AssumesUntilItHasMeasured) {
  RateMeter meter(2.0, kRemembered);
  EXPECT_DOUBLE_EQ(meter.nanosecondsFor(1000), 500);
  meter.add(4000, 1000);  // 4 bytes a nanosecond
  EXPECT_DOUBLE_EQ(meter.nanosecondsFor(1000), 250);
}

// What one gets alone is shared by four, and what is measured after it counts as it is: 1000 bytes
// in 1000 ns, then 3000 in 3000.
TEST(RateMeter, IsStretchedByThoseWhoShare) {
  RateMeter meter(2.0, kRemembered);
  meter.add(1000, 250);
  meter.stretch(4);
  EXPECT_DOUBLE_EQ(meter.nanosecondsFor(1000), 1000);
  meter.add(3000, 3000);
  EXPECT_DOUBLE_EQ(meter.nanosecondsFor(4000), 4000);
}

// 1 GiB in 2^30 ns, again and again: 1 byte a nanosecond. From then on 4 bytes a nanosecond; the
// old ones are halved each time that more than 2 GiB are remembered, so after ten more, in which
// they have been halved five times at least, they hardly count.
TEST(RateMeter, ForgetsWhatIsOld) {
  constexpr std::int64_t kGib = std::int64_t{1} << 30;
  RateMeter meter(2.0, kRemembered);
  for (int i = 0; i < 4; ++i) meter.add(kGib, kGib);
  EXPECT_DOUBLE_EQ(meter.nanosecondsFor(kGib), static_cast<double>(kGib));
  for (int i = 0; i < 10; ++i) meter.add(kGib, kGib / 4);
  EXPECT_NEAR(meter.nanosecondsFor(1000), 250, 25);
}

}  // namespace
}  // namespace ebbtide::plugin
