// The graphs of kusumoto2019's authors (kusumoto_text.hpp) as Graphs.
#pragma once

#include <string>

#include "ebbtide/scheduler/graph.hpp"
#include "ebbtide/scheduler/graph_file.hpp"

namespace ebbtide::scheduler {

// What the paper gives all functions but convolutions as their time; those take ten times as long
// (end of section 3).
inline constexpr Nanoseconds kKusumotoTimeUnit = 1'000'000;

// kPaper: canonicalGraph() of the paper's nodes, which are the forward functions' outputs.
// kReal: the functions as they are. Variables that no forward function makes (parameters, data) are
//   fixed bytes and so are the gradients of those, from the function that makes them on. Other
//   gradients are values; further contributions are added in place. A backward function takes twice
//   the time of its forward function. The program lets go of a value after its last forward reader.
// Throws std::invalid_argument that names the line.
Graph kusumotoGraph(const std::string& text, CostModel model);

}  // namespace ebbtide::scheduler
