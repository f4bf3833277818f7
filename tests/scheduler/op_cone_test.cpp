#include "search/op_cone.hpp"

#include <gtest/gtest.h>

namespace ebbtide::scheduler {
namespace {

// The cone of an op that lacks what ops 3 and 1 make; op 3 lacks what 1 and 0 make.
std::vector<OpId> walked(OpCone& cone) {
  cone.begin();
  cone.require(3);
  cone.require(1);
  for (OpId op = cone.next(); op != kNone; op = cone.next()) {
    if (op != 3) continue;
    cone.require(1);
    cone.require(0);
  }
  return cone.ops();
}

TEST(OpCone, HasEachOpOnceInProgramOrder) {
  OpCone cone(5);
  EXPECT_EQ(walked(cone), (std::vector<OpId>{0, 1, 3}));
}

TEST(OpCone, GivesTheOpThatWasRequiredLast) {
  OpCone cone(3);
  cone.begin();
  cone.require(2);
  cone.require(0);
  EXPECT_EQ(cone.next(), 0);
  cone.require(1);
  EXPECT_EQ(cone.next(), 1);
  EXPECT_EQ(cone.next(), 2);
  EXPECT_EQ(cone.next(), kNone);
}

TEST(OpCone, BeginsAnewWithNothing) {
  OpCone cone(5);
  walked(cone);
  cone.begin();
  EXPECT_EQ(cone.next(), kNone);
  EXPECT_TRUE(cone.ops().empty());
  EXPECT_EQ(walked(cone), (std::vector<OpId>{0, 1, 3}));
}

}  // namespace
}  // namespace ebbtide::scheduler
