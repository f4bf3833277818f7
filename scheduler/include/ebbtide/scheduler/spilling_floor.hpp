// What a step needs at least, whatever is kept on the host meanwhile.
#pragma once

#include "ebbtide/scheduler/graph.hpp"

namespace ebbtide::scheduler {

// The lowest peak with every value on the host whenever no op reads or writes it and the program
// itself holds it no more.
Bytes spillingFloor(const Graph& graph);

}  // namespace ebbtide::scheduler
