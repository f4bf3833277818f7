#include "graph_input.hpp"

#include <stdexcept>

#include "ebbtide/scheduler/graph_file.hpp"
#include "text_file.hpp"

namespace ebbtide::cli {

CLI::Option* GraphInput::addTo(CLI::App& verb) {
  auto* graph = verb.add_option("GRAPH", path,
                                "a recorded step (EBBTIDE_TRACE_DIR writes one) or another graph")
                    ->required()
                    ->type_name("FILE");
  verb.add_option("--format", format, "auto, trace, kusumoto, moccasin, chain or graph")
      ->capture_default_str()
      ->type_name("NAME");
  verb.add_option("--model", model,
                  "real: what the simulator says; paper: memory and time as the graph's paper "
                  "defines them")
      ->check(CLI::IsMember({"real", "paper"}))
      ->capture_default_str();
  return graph;
}

scheduler::Graph GraphInput::read() const {
  using namespace scheduler;
  const GraphFormat wanted = graphFormatFromName(format);
  const CostModel costs = model == "paper" ? CostModel::kPaper : CostModel::kReal;
  const std::string text = readText(path);
  try {
    return readGraph(text, wanted, costs);
  } catch (const std::invalid_argument& error) {
    throw std::invalid_argument(path + ": " + error.what());
  }
}

}  // namespace ebbtide::cli
