#include "ebbtide/scheduler/graph_file.hpp"

#include <array>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <utility>

#include "base/gzip.hpp"
#include "base/json_text.hpp"
#include "ebbtide/scheduler/graph_builder.hpp"
#include "ebbtide/scheduler/trace.hpp"
#include "ebbtide/scheduler/value_copies.hpp"
#include "io/chain_json.hpp"
#include "io/graph_json.hpp"
#include "io/kusumoto_graph.hpp"
#include "io/moccasin_graph.hpp"
#include "io/trace_json.hpp"

namespace ebbtide::scheduler {
namespace {

constexpr std::array<std::pair<std::string_view, GraphFormat>, 6> kFormats = {
    {{"auto", GraphFormat::kAuto},
     {"trace", GraphFormat::kTrace},
     {"kusumoto", GraphFormat::kKusumoto},
     {"moccasin", GraphFormat::kMoccasin},
     {"chain", GraphFormat::kChain},
     {"graph", GraphFormat::kGraph}}};

std::string formatNames() {
  std::string names;
  for (const auto& [name, format] : kFormats) {
    names += (names.empty() ? "" : ", ") + std::string(name);
  }
  return names;
}

// A number opens the authors' text form, a brace every other.
bool isKusumoto(const std::string& text) {
  const std::size_t first = text.find_first_not_of(" \t\r\n");
  return first != std::string::npos && text[first] >= '0' && text[first] <= '9';
}

GraphFormat formatOf(const nlohmann::json& tree) {
  const auto format = tree.is_object() ? tree.find("format") : tree.end();
  if (tree.is_object() && format != tree.end()) {
    if (*format == "ebbtide-trace-1") return GraphFormat::kTrace;
    if (*format == "ebbtide-chain-1") return GraphFormat::kChain;
    if (*format == "ebbtide-graph-1") return GraphFormat::kGraph;
  } else if (tree.is_object() && tree.contains("nodes") && tree.contains("links")) {
    return GraphFormat::kMoccasin;
  }
  throw std::invalid_argument(
      "graph: of no known format: 'format' should be ebbtide-trace-1, ebbtide-chain-1 or "
      "ebbtide-graph-1, or there should be 'nodes' and 'links'");
}

void refusePaperModel(CostModel model, const char* what) {
  if (model == CostModel::kReal) return;
  throw std::invalid_argument(std::string(what) +
                              " stands for itself: the paper's model is for kusumoto, moccasin and "
                              "chain files");
}

Graph fromText(const std::string& text, CostModel model) {
  try {
    return kusumotoGraph(text, model);
  } catch (const std::invalid_argument& error) {
    throw std::invalid_argument(std::string("graph: ") + error.what());
  }
}

Graph fromTrace(const Trace& trace) {
  TraceGraph step = buildGraph(trace);
  addValueCopies(trace, step);
  return std::move(step.graph);
}

Graph fromJson(const std::string& text, GraphFormat format, CostModel model) {
  const nlohmann::json tree = parseJson(text, "graph");
  if (format == GraphFormat::kAuto) format = formatOf(tree);
  switch (format) {
    case GraphFormat::kTrace:
      refusePaperModel(model, "a trace");
      return fromTrace(traceFromTree(tree));
    case GraphFormat::kGraph:
      refusePaperModel(model, "a graph file");
      return graphFromTree(tree);
    case GraphFormat::kMoccasin:
      return moccasinGraphFromJson(text);  // one model: the paper's
    case GraphFormat::kChain:
      return chainGraph(chainFromTree(tree), model);
    case GraphFormat::kAuto:
    case GraphFormat::kKusumoto:
      break;
  }
  throw std::logic_error("not a JSON format");
}

}  // namespace

GraphFormat graphFormatFromName(std::string_view name) {
  for (const auto& [known, format] : kFormats) {
    if (known == name) return format;
  }
  throw std::invalid_argument("unknown format '" + std::string(name) +
                              "'; known: " + formatNames());
}

Graph readGraph(const std::string& file, GraphFormat format, CostModel model) {
  const std::string unpacked = isGzip(file) ? unpackGzip(file) : std::string();
  const std::string& text = isGzip(file) ? unpacked : file;
  if (text.find_first_not_of(" \t\r\n") == std::string::npos) {
    throw std::invalid_argument("graph: the file is empty");
  }
  if (format == GraphFormat::kAuto && isKusumoto(text)) format = GraphFormat::kKusumoto;
  Graph graph =
      format == GraphFormat::kKusumoto ? fromText(text, model) : fromJson(text, format, model);
  if (graph.ops.empty()) throw std::invalid_argument("graph: has no ops");
  try {
    checkGraph(graph);
  } catch (const std::invalid_argument& error) {
    throw std::invalid_argument(std::string("graph: ") + error.what());
  }
  return graph;
}

}  // namespace ebbtide::scheduler
