// What a thread may still call while the process exits: statics are gone by then.
#include <gtest/gtest.h>

#include <cstdlib>

#include "ebbtide/scheduler/planner.hpp"
#include "small_graphs.hpp"
#include "small_traces.hpp"

namespace ebbtide::scheduler {
namespace {

bool ask_at_exit = false;

// Runs after the destructors of all statics.
__attribute__((destructor)) void planAfterStatics() {
  if (!ask_at_exit) return;
  const bool feasible = planner("auto").plan(chain(4), 30, {}).feasible;
  const Trace again = traceFromJson(toJson(twoOps()));
  if (!feasible || again.events.size() != twoOps().events.size()) std::_Exit(3);
}

TEST(ExitDeathTest, PlansAndTracesWorkAfterStaticsAreDestroyed) {
  EXPECT_EXIT(
      {
        ask_at_exit = true;
        toJson(twoOps());  // makes the statics
        planner("auto");
        std::exit(0);
      },
      testing::ExitedWithCode(0), "");
}

}  // namespace
}  // namespace ebbtide::scheduler
