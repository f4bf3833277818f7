#include "control/program_needs.hpp"

#include <utility>

#include "ebbtide/scheduler/graph_builder.hpp"
#include "ebbtide/scheduler/simulator.hpp"
#include "ebbtide/scheduler/spilling_floor.hpp"

namespace ebbtide::plugin {
namespace {

// Of what it needs at least: what nothing reads may go.
scheduler::TraceGraph leastGraphOf(const RecordedStep& step) {
  return scheduler::buildGraph(*step.trace, {.first_step = step.first_step, .unread_may_go = true});
}

}  // namespace

scheduler::Trace ProgramNeeds::planningTrace(const RecordedStep& step) const {
  scheduler::Trace trace = *step.trace;
  trace.host = budget_.run().trained.hostCopies();
  trust_.keepRejected(trace);
  return trace;
}

// What the recorded step needs: without a plan, and at least, of such a budget.
ProgramChange ProgramNeeds::of(RecordedStep step, std::optional<Bytes> budget) const {
  ProgramChange program{.step = std::move(step)};
  const scheduler::Trace& trace = *program.step.trace;
  const bool first = program.step.first_step;
  const scheduler::TraceGraph graph = scheduler::buildGraph(trace, {.first_step = first});
  program.plain_peak_bytes = program.predicted_peak_bytes =
      scheduler::simulate(graph.graph, scheduler::keepEverything(graph.graph)).peak_bytes;
  if (!budget) return program;
  const Bytes floor = scheduler::spillingFloor(leastGraphOf(program.step).graph).bytes;
  const auto held = budget_.run().guard.hold();
  const Bytes grown = budget_.verdict().grown().since(held, trace.base_bytes);
  program.base_bytes = trace.base_bytes + grown;
  program.needed_bytes = floor + grown + budget_.run().trained.unplannedBytes();
  return program;
}

std::int64_t ProgramNeeds::smallestBudgetOf(const std::vector<ProgramChange>& programs) const {
  BudgetVerdict& verdict = budget_.verdict();
  for (const ProgramChange& program : programs) {
    if (program.needed_bytes <= verdict.floorBytes()) continue;
    const scheduler::Trace& trace = *program.step.trace;
    const scheduler::TraceGraph graph = leastGraphOf(program.step);
    const scheduler::SpillingFloor floor = scheduler::spillingFloor(graph.graph);
    const auto held = budget_.run().guard.hold();
    verdict.noteNeed(held, {.trace = trace,
                            .graph = graph,
                            .floor = floor,
                            .bytes = program.needed_bytes,
                            .alone = program.step.alone,
                            .base_bytes = program.base_bytes});
  }
  const auto held = budget_.run().guard.hold();
  return verdict.told().smallestBytes();
}

}  // namespace ebbtide::plugin
