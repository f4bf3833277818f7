// What a StepPlanning does to find a better plan than the one in force, beside the planning thread.
#include <chrono>
#include <exception>
#include <memory>
#include <utility>

#include "runtime/step_planning.hpp"

namespace ebbtide::plugin {

// A plan that steps found wanting is followed only while its own program's search goes on, whose
// result takes its place. Another program's may wait for minutes until planning may go on; and a
// thread of the lowest priority may end long after its search is cut.
bool StepPlanning::waitsForSearch(const Held& held, const Program& known) const {
  if (known.in_force.plan == nullptr || !polishes(held)) return false;
  if (!known.planning.replan) return true;
  return known.in_force.plan == service_.improved(held) && !service_.isCut();
}

bool StepPlanning::beginPolishing(const Task& task, const scheduler::TraceGraph& graph) {
  const scheduler::Trace& trace = *task.step.trace;
  const std::chrono::duration<double> before = task.took();
  {
    const Held held = run().guard.hold();
    const auto program = run().programs.find(trace.signature);
    if (program == run().programs.end() || task.budget_number != budget_.number(held)) return true;
    Program& known = program->second;
    if (trace.group_size > 1 || !known.in_force.isFirst()) return false;
    // One at a time: this program's begins with a step that is recorded later.
    known.planning.unpolished = polished_.has_value();
    if (known.planning.unpolished) return true;
    service_.improve(held, known.in_force.plan);
  }
  try {
    polished_ = Polished{.of = task, .before = before, .used_before = service_.usedByPolishing()};
    service_.polish(task.step.trace, graph, task.cap);
  } catch (...) {
    polished_.reset();
    service_.endSearch(run().guard.hold());
    throw;
  }
  return true;
}

void StepPlanning::cutLate(const Held& held) {
  if (!service_.isLate(held, std::chrono::steady_clock::now())) return;
  const auto known = run().programs.find(service_.improved(held)->signature);
  service_.cut(held);
  if (known == run().programs.end()) return;
  if (std::exchange(known->second.planning.awaits_search, false)) known->second.askUncounted();
  run().to_record.atLeast(2);
}

void StepPlanning::takePolished() {
  const Polished polished = std::exchange(polished_, std::nullopt).value();
  try {
    publishPolished(polished);
  } catch (const std::exception& error) {
    sayUnplanned(polished.of.step, error.what());
  }
  const Held held = run().guard.hold();
  endSearch(held, polished.of.budget_number);
}

// Of a search that waited what it used is told, not how long ago it began.
void StepPlanning::publishPolished(const Polished& polished) {
  const Task& task = polished.of;
  const scheduler::Trace& trace = *task.step.trace;
  const auto start = std::chrono::steady_clock::now();
  Planned planned = service_.takePolished();
  if (service_.isCut()) return;
  preferCompared(trace, task.step.first_step, task.cap, planned);
  service_.search().replayAhead(trace, planned, task.cap);
  const std::chrono::duration<double> took = polished.before +
                                             (service_.usedByPolishing() - polished.used_before) +
                                             (std::chrono::steady_clock::now() - start);
  publish(trace, planned, took.count(), task.budget_number);
}

// The search was cut, or its budget holds no more: what it has found is nobody's. It is made once
// more if its program still has the first plan (a pause has ended, say) or waits for a better one.
void StepPlanning::endSearch(const Held& held, int budget_number) {
  const auto [first, cut] = service_.endSearch(held);
  if (!cut && budget_number == budget_.number(held)) return;
  run().to_record.atLeast(2);
  if (first == nullptr) return;
  const auto known = run().programs.find(first->signature);
  if (known == run().programs.end()) return;
  if (known->second.in_force.plan == first || known->second.planning.awaits_search)
    known->second.askUncounted();
}

}  // namespace ebbtide::plugin
