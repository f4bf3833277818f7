// Articulation points: nodes of an undirected graph whose removal leaves more components.
#pragma once

#include <vector>

#include "base/neighbours.hpp"

namespace ebbtide::scheduler {

// Per node: is it one? Tarjan's algorithm, linear, no recursion.
std::vector<bool> articulationPoints(const Neighbours& graph);

}  // namespace ebbtide::scheduler
