#include "runtime/budget/eviction_costs.hpp"

#include <gtest/gtest.h>

namespace ebbtide::plugin {
namespace {

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
