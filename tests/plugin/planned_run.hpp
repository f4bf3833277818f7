// A run without a session, whose planning thread has not begun: what its steps and its rank work
// with.
#pragma once

#include <string>

#include "fake_control.hpp"
#include "judged_run.hpp"
#include "runtime/budget/drops_allowed.hpp"
#include "runtime/budget/outage_course.hpp"
#include "runtime/output/run_lines.hpp"
#include "runtime/programs/steps_so_far.hpp"
#include "runtime/rank_in_job.hpp"
#include "runtime/run/run_life.hpp"
#include "runtime/step_planning.hpp"

namespace ebbtide::plugin::test {

class PlannedRunTest : public JudgedRunTest {
 protected:
  explicit PlannedRunTest(Config config = {}) : JudgedRunTest(std::move(config)) {}

  // By the steps that are counted here.
  JudgedRun judged() {
    const JudgedRun of = run(host_.state());
    return {.guard = of.guard,
            .config = of.config,
            .trained = of.trained,
            .metrics = of.metrics,
            .counters = of.counters,
            .keeps_everything = drops_.keepsForGood(),
            .outage = of.outage,
            .steps = steps_so_far_.ended,
            .to_record = steps_so_far_.to_record,
            .taken = steps_so_far_.taken,
            .figures = steps_so_far_.figures,
            .programs = steps_so_far_.programs,
            .may_be_advised = of.may_be_advised,
            .say = of.say,
            .warn = of.warn};
  }

  RunLife life_;
  const RunLines lines_{config_, life_.ends};
  const std::string torch_version_ = "2.0";
  FakeControl control_;
  PlanningService planning_{{}, [](const std::string&) {}};
  ReplayTrust trust_{metrics_.series(),
                     {.plan_without_rejected = [] {},
                      .warn = [](const std::string&) {},
                      .debug = [](const std::string&) {}}};
  StepsSoFar steps_so_far_;
  DropsAllowed drops_{trained_, budget_, lines_.warner(), lines_.debugger()};
  RankInJob rank_{{.guard = guard_,
                   .config = config_,
                   .trained = trained_,
                   .metrics = metrics_,
                   .budget = budget_,
                   .control = control_,
                   .planning = planning_,
                   .plans = plans_,
                   .life = life_,
                   .lines = lines_,
                   .torch_version = torch_version_}};
  OutageCourse host_{budget_};
  BudgetController budget_{judged()};
  StepPlanning plans_{{.service = planning_,
                       .budget = budget_,
                       .outage = host_,
                       .job = rank_.client(),
                       .trust = trust_,
                       .counters = counters_,
                       .ends = life_.ends,
                       .debug = [](const std::string&) {}}};
};

}  // namespace ebbtide::plugin::test
