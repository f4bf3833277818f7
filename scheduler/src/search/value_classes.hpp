// Classes of alike values: those at the same place of identical blocks.
#pragma once

#include <vector>

#include "ebbtide/scheduler/graph.hpp"

namespace ebbtide::scheduler {

// Of produced values; each class keeps their order. Values are alike if their producers have the
// same name, sizes and neighbours; durations are left out, being noisy and given by the sizes.
std::vector<std::vector<ValueId>> valueClasses(const Graph& graph,
                                               const std::vector<ValueId>& values);

}  // namespace ebbtide::scheduler
