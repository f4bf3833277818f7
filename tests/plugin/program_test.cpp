#include "runtime/program.hpp"

#include <gtest/gtest.h>

namespace ebbtide::plugin {
namespace {

TEST(Program, ALaterPlanTakesItsPlaceAtItsStep) {
  Program program;
  const auto now = std::make_shared<Plan>(), later = std::make_shared<Plan>();
  program.plan = now;
  program.later_plan = later;
  program.later_from = 7;
  EXPECT_EQ(program.planAt(6), now);
  EXPECT_EQ(program.planAt(7), later);
  EXPECT_EQ(program.later_plan, nullptr);
  EXPECT_EQ(program.planAt(6), later);  // a step that began late: there is no way back
}

// Steps that differ from the plan each time: it is asked for again four times, once at a time.
TEST(Program, IsPlannedAgainOnlySoOften) {
  Program program;
  for (int time = 0; time < Program::kMostReplans; ++time) {
    program.askAgain();
    program.askAgain();
    EXPECT_TRUE(program.replan);
    program.replan = false;
  }
  program.askAgain();
  EXPECT_FALSE(program.replan);
}

TEST(Program, ComparedOpsAddUp) {
  Program program;
  Plan first, second;
  first.replayed = {true, false, true};
  second.replayed = {false, false, true, true};
  program.noteCompared(first);
  program.noteCompared(second);
  EXPECT_EQ(program.verified, (std::set<OpId>{0, 2, 3}));
}

TEST(Program, AKeyIsKeptUntilAnotherIsTaken) {
  Program program;
  program.noteAuditKeys({5, 0, 6});
  program.noteAuditKeys({0, 7});
  program.noteAuditKeys({8});
  EXPECT_EQ(program.audit_keys, (std::vector<AuditKey>{8, 7, 6}));
}

}  // namespace
}  // namespace ebbtide::plugin
