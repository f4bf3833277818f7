// What a Session does on its planning thread, and what a recorded step tells of the budget.
#include <algorithm>

#include "ebbtide/scheduler/spilling_floor.hpp"
#include "runtime/session.hpp"

namespace ebbtide::plugin {

// Of a step that has been recorded: what the report says of its activations, and what it tells of
// the budget.
void Session::analyse(const scheduler::Trace& trace, bool first_step, bool alone,
                      int budget_number) try {
  const scheduler::TraceGraph graph = scheduler::buildGraph(trace, {.first_step = first_step});
  auto shares = scheduler::activationShares(trace, graph);
  {
    const Held held = mutex_.hold();
    const auto program = programs_.find(trace.signature);
    if (program != programs_.end()) program->second.shares = std::move(shares);
  }
  budget_.verdict().noteFloor(
      trace, scheduler::buildGraph(trace, {.first_step = first_step, .unread_may_go = true}), alone,
      budget_number);
} catch (const std::exception& error) {
  warn(std::string("a step could not be analysed: ") + error.what());
}

void Session::planLoop() {
  job_.begin(here());
  for (;;) {
    std::optional<RecordedStep> step;
    bool polished = false, to_place = false, asked = false;
    int budget_number = 0;
    {
      Held held = mutex_.hold();
      const auto due = std::min(
          {job_.nextPoll(), metrics_.nextFile(), files_.nextReport(), nextPlaceLook(held)});
      planning_.await(held, due, [&] {
        return hasStepToPlace() || control_->hasWork(held) || nextPlaceLook(held) < due;
      });
      if (closing_) return;
      plans_.cutLate(held);
      polished = plans_.isPolished();
      if (!polished) step = planning_.take(held);
      budget_number = budget_.number(held);
      to_place = hasStepToPlace();
      asked = control_->hasWork(held);
    }
    try {
      if (shows_) discovery_.seek(std::chrono::steady_clock::now());
      if (metrics_.nextFile() <= std::chrono::steady_clock::now()) metrics_.writeFile(ends_);
      if (files_.nextReport() <= std::chrono::steady_clock::now()) rewriteReport();
    } catch (const std::exception& error) {
      warn(std::string("this run is not shown everywhere: ") + error.what());
      discovery_.giveUp(mutex_.hold());
    }
    if (polished) {
      plans_.takePolished();
      continue;
    }
    if (step) {
      plans_.plan(*step, budget_number);
      continue;
    }
    if (to_place) placeStep();
    if (asked) control_->work();
    pollJob();
  }
}

// Without addresses the allocator chooses some: no step depends on them.
void Session::placeStep() {
  try {
    debug(trained_.placement()->place(&ends_));
  } catch (const std::exception& error) {
    debug(std::string("a step could not be placed: ") + error.what());
  }
}

}  // namespace ebbtide::plugin
