#include "runtime/planning_loop.hpp"

#include <algorithm>
#include <exception>
#include <optional>

namespace ebbtide::plugin {

void PlanningLoop::run() {
  parts_.rank.beginJob();
  for (;;) {
    std::optional<RecordedStep> step;
    bool polished = false, to_place = false, asked = false;
    int budget_number = 0;
    {
      Held held = guard().hold();
      const auto due = std::min({parts_.rank.client().nextPoll(), parts_.outputs.metrics.nextFile(),
                                 parts_.outputs.files.nextReport(), nextPlaceLook(held)});
      parts_.service.await(held, due, [&] {
        return hasStepToPlace() || parts_.control.hasWork(held) || nextPlaceLook(held) < due;
      });
      if (parts_.life.ends) return;
      parts_.plans.cutLate(held);
      polished = parts_.plans.isPolished();
      if (!polished) step = parts_.service.take(held);
      budget_number = parts_.budget.number(held);
      to_place = hasStepToPlace();
      asked = parts_.control.hasWork(held);
    }
    doWhatIsDue();
    if (polished) {
      parts_.plans.takePolished();
      continue;
    }
    if (step) {
      parts_.plans.plan(*step, budget_number);
      continue;
    }
    if (to_place) placeStep();
    if (asked) parts_.control.work();
    pollJob();
  }
}

PlanningLoop::Time PlanningLoop::nextPlaceLook(const Held& held) const {
  return parts_.life.shows ? parts_.rank.discovery().nextLook(held) : Time::max();
}

bool PlanningLoop::hasStepToPlace() const {
  return parts_.trained.placement() && parts_.trained.placement()->hasWork();
}

void PlanningLoop::doWhatIsDue() try {
  if (parts_.life.shows) parts_.rank.discovery().seek(std::chrono::steady_clock::now());
  if (parts_.outputs.metrics.nextFile() <= std::chrono::steady_clock::now())
    parts_.outputs.metrics.writeFile(parts_.life.ends);
  if (parts_.outputs.files.nextReport() <= std::chrono::steady_clock::now()) rewriteReport();
} catch (const std::exception& error) {
  parts_.lines.warn(std::string("this run is not shown everywhere: ") + error.what());
  parts_.rank.discovery().giveUp(guard().hold());
}

// Without addresses the allocator chooses some: no step depends on them.
void PlanningLoop::placeStep() {
  try {
    parts_.lines.debug(parts_.trained.placement()->place(&parts_.life.ends));
  } catch (const std::exception& error) {
    parts_.lines.debug(std::string("a step could not be placed: ") + error.what());
  }
}

void PlanningLoop::pollJob() try {
  JobProgress progress;
  {
    const Held held = guard().hold();
    progress.step = parts_.steps.ended;
    if (const auto step_time = parts_.steps.stepTime(held))
      progress.step_ns = static_cast<Nanoseconds>(step_time->seconds * 1e9);
  }
  parts_.rank.client().poll(std::chrono::steady_clock::now(), progress);
} catch (const std::exception& error) {
  parts_.lines.debug(std::string("the job's plan: ") + error.what());
}

void PlanningLoop::rewriteReport() {
  bool any_step = false;
  {
    const Held held = guard().hold();
    any_step = parts_.steps.ended > 0;
  }
  // A data loader's worker that runs forward passes has the path of its rank's.
  const bool of_rank = any_step || parts_.life.shows;
  if (parts_.outputs.files.takesReport(any_step) && of_rank)
    parts_.outputs.files.writeReport(parts_.report());
}

}  // namespace ebbtide::plugin
