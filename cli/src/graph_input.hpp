// The arguments that say which graph: GRAPH, --format, --model.
#pragma once

#include <CLI/App.hpp>
#include <string>

#include "ebbtide/scheduler/graph.hpp"

namespace ebbtide::cli {

struct GraphInput {
  std::string path;
  std::string format = "auto";
  std::string model = "real";

  CLI::Option* addTo(CLI::App& verb);  // GRAPH, which is required
  // Throws std::invalid_argument that begins with the path.
  scheduler::Graph read() const;
};

}  // namespace ebbtide::cli
