#include "runtime/run_life.hpp"

#include <gtest/gtest.h>

#include "forked_child.hpp"

namespace ebbtide::plugin {
namespace {

using test::holdsInChild;

TEST(RunLife, AChildOfAProcessThatHasNotBegunToTrainMayTrain) {
  RunLife life;
  EXPECT_TRUE(holdsInChild([&life] {
    life.noteForked();
    return life.forked && !RunLife::inChild();
  }));
  EXPECT_FALSE(life.forked);
}

TEST(RunLife, AChildOfAProcessThatTrainsIsInert) {
  RunLife life;
  life.wakes = true;  // its first training op has not returned
  EXPECT_TRUE(holdsInChild([&life] {
    life.noteForked();
    return !life.forked && RunLife::inChild();
  }));
  EXPECT_FALSE(RunLife::inChild());
}

// Its own first op wakes it; a child of that one is inert.
TEST(RunLife, AChildThatTrainsHasInertChildren) {
  RunLife life;
  EXPECT_TRUE(holdsInChild([&life] {
    life.noteForked();
    life.wakes = true;
    return !RunLife::inChild() && holdsInChild([&life] {
      life.noteForked();
      return life.forked && RunLife::inChild();
    });
  }));
}

}  // namespace
}  // namespace ebbtide::plugin
