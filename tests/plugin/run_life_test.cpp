#include "runtime/run_life.hpp"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <functional>

namespace ebbtide::plugin {
namespace {

// In a child, as what it becomes is the process's. Exit status 0: it holds.
bool holdsInChild(const std::function<bool()>& holds) {
  const pid_t child = ::fork();
  if (child == 0) ::_exit(holds() ? 0 : 1);
  int status = -1;
  ::waitpid(child, &status, 0);
  return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

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
