#include "plan/plan_search.hpp"

#include <fmt/format.h>

#include <stdexcept>

#include "ebbtide/scheduler/advance_replays.hpp"
#include "ebbtide/scheduler/validator.hpp"
#include "plan/plan.hpp"

namespace ebbtide::plugin {

using scheduler::Bytes;

PlanSearch::PlanSearch(const Options& options, const Tell& debug)
    : search_({.planner = options.planner,
               .planning_time = options.planning_time,
               .work = options.work,
               .cancelled = options.cancelled,
               .in_its_place = options.in_its_place,
               .pace = options.pace},
              debug),
      replay_ahead_(options.replay_ahead),
      debug_(debug) {}

void PlanSearch::replayAhead(const scheduler::Trace& trace, Planned& planned, Bytes cap) const {
  if (!replay_ahead_) return;
  scheduler::AdvancedReplays ahead =
      scheduler::advanceReplays(planned.step.graph, planned.result.schedule, cap);
  if (ahead.moved == 0) return;
  if (const auto problem = scheduler::validate(planned.step.graph, ahead.schedule)) {
    debug_("no replays ahead of messages: " + *problem);
    return;
  }
  try {
    makePlan(trace, planned.step, ahead.schedule);
  } catch (const std::invalid_argument& error) {
    debug_(std::string("no replays ahead of messages: ") + error.what());
    return;
  }
  planned.result.schedule = std::move(ahead.schedule);
  planned.simulated = scheduler::simulate(planned.step.graph, planned.result.schedule);
  debug_(fmt::format("{} replays of {:.1f} ms run while messages are under way", ahead.moved,
                     static_cast<double>(ahead.moved_ns) * 1e-6));
}

}  // namespace ebbtide::plugin
