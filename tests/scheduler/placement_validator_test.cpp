#include "ebbtide/scheduler/placement_validator.hpp"

#include <gtest/gtest.h>

namespace ebbtide::scheduler {
namespace {

// a [0, 4) and b [2, 6) share [2, 4); c [4, 8) follows a. LOAD is 8 + 16 at 2, 16 + 8 at 4.
PlacementProblem threeBuffers() {
  return {{{0, 4, 8}, {2, 6, 16}, {4, 8, 8}}, 8};
}

std::string fault(const PlacementProblem& problem, std::vector<Bytes> offsets, Bytes height,
                  Bytes load = 24) {
  return validate(problem, {std::move(offsets), height, load, false, ""}).value_or("");
}

TEST(PlacementValidator, AcceptsWhatTouches) {
  EXPECT_EQ(fault(threeBuffers(), {0, 8, 0}, 24), "");
  EXPECT_EQ(fault(threeBuffers(), {16, 0, 16}, 24), "");
  EXPECT_EQ(fault({{}, 1}, {}, 0, 0), "");
}

TEST(PlacementValidator, NamesTheFirstFault) {
  EXPECT_EQ(fault(threeBuffers(), {0, 8}, 24), "2 offsets for 3 buffers");
  EXPECT_EQ(fault(threeBuffers(), {-8, 8, 0}, 24), "the offset of buffer 0 is below 0");
  EXPECT_EQ(fault(threeBuffers(), {0, (Bytes{1} << 60) + 8, 0}, 24),
            "the offset of buffer 1 is over 2^60");
  EXPECT_EQ(fault(threeBuffers(), {0, 8, 4}, 24), "the offset of buffer 2 is not aligned");
  EXPECT_EQ(fault(threeBuffers(), {0, 8, 0}, 32), "the height is 24, not 32");
  EXPECT_EQ(fault(threeBuffers(), {0, 8, 0}, 24, 16), "LOAD is 24, not 16");
}

TEST(PlacementValidator, HoldsTheHeightToTheCapacity) {
  const Placement placement{{0, 8, 0}, 24, 24, false, ""};
  EXPECT_EQ(validate(threeBuffers(), placement, 24).value_or(""), "");
  EXPECT_EQ(validate(threeBuffers(), placement, 23).value_or(""),
            "the height 24 is above the capacity 23");
}

TEST(PlacementValidator, FindsWhoOverlaps) {
  EXPECT_EQ(fault(threeBuffers(), {0, 0, 16}, 24), "buffers 0 and 1 overlap");
  EXPECT_EQ(fault(threeBuffers(), {8, 0, 16}, 24), "buffers 0 and 1 overlap");   // from below
  EXPECT_EQ(fault(threeBuffers(), {0, 8, 16}, 24), "buffers 1 and 2 overlap");   // within
  EXPECT_EQ(fault(threeBuffers(), {0, 16, 16}, 32), "buffers 1 and 2 overlap");  // equal offsets
}

// 5 bytes take 8, so the next one is at 8 at least.
TEST(PlacementValidator, RoundsSizesUp) {
  const PlacementProblem problem{{{0, 2, 5}, {0, 2, 5}}, 8};
  EXPECT_EQ(fault(problem, {0, 8}, 16, 16), "");
  EXPECT_EQ(fault({problem.buffers, 4}, {0, 4}, 12, 16), "buffers 0 and 1 overlap");
}

TEST(PlacementValidator, LetsNothingLieAnywhere) {
  EXPECT_EQ(fault({{{0, 2, 8}, {0, 2, 0}}, 1}, {0, 4}, 8, 8), "");
}

}  // namespace
}  // namespace ebbtide::scheduler
