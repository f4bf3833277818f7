// Validator: is a schedule legal on a graph? Shares no code with planners or the simulator.
#pragma once

#include <optional>
#include <string>

#include "ebbtide/scheduler/graph.hpp"
#include "ebbtide/scheduler/schedule.hpp"

namespace ebbtide::scheduler {

// Returns nothing when the schedule is legal, else one sentence naming the first step that is not:
// an op out of range, a first run out of program order, a missing first run, a replay of an op that
// is not rerunnable, a run whose input is not live, a drop of something not live, a copy read after
// the program overwrote it, an offload or fetch that does not fit the value's state, a replay in a
// recorded step right before an op where none may come (graph.hpp).
std::optional<std::string> validate(const Graph& graph, const Schedule& schedule);

}  // namespace ebbtide::scheduler
