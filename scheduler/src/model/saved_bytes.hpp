// Graphs that are kept (Value::saved_last), for searches that do not know of them.
#pragma once

#include "ebbtide/scheduler/graph.hpp"
#include "ebbtide/scheduler/schedule.hpp"

namespace ebbtide::scheduler {

// What saved tensors hold beyond its last read under this schedule is fixed. Another one that makes
// fewer values again than this holds more: the simulator tells, of the graph as it was.
Graph withSavedFixed(Graph graph, const Schedule& schedule);

}  // namespace ebbtide::scheduler
