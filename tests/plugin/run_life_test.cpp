#include "runtime/run/run_life.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>

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

// Who was ending the parent's run is not in the child. An alarm ends a child that waits all the
// same.
TEST(RunLife, AChildWaitsForNoEndOfItsParents) {
  RunLife life;
  life.ends = true;
  EXPECT_TRUE(holdsInChild([&life] {
    life.noteForked();
    ::alarm(60);
    life.waitUntilOver(std::chrono::hours(1));
    return life.over.load();
  }));
  EXPECT_FALSE(life.over);
}

// The first one may hang: it is awaited for as long as was asked, and no longer.
TEST(RunLife, AWaitForTheEndHasABound) {
  EXPECT_TRUE(holdsInChild([] {
    ::alarm(60);
    const auto begun = std::chrono::steady_clock::now();
    const auto most = std::chrono::milliseconds(20);
    RunLife().waitUntilOver(most);
    return std::chrono::steady_clock::now() - begun >= most;
  }));
}

}  // namespace
}  // namespace ebbtide::plugin
