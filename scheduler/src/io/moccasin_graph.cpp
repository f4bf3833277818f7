#include "io/moccasin_graph.hpp"

#include <algorithm>
#include <cmath>
#include <initializer_list>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <utility>
#include <vector>

namespace ebbtide::scheduler {
namespace {

using Json = nlohmann::json;

[[noreturn]] void fail(const std::string& where, const std::string& what) {
  throw std::invalid_argument("moccasin graph: " + where + " " + what);
}

std::string at(const char* list, std::size_t index) {
  return std::string(list) + "[" + std::to_string(index) + "]";
}

// The first of `names` that the object has: files differ in what they call a thing.
const Json& field(const Json& object, std::initializer_list<const char*> names,
                  const std::string& where) {
  if (!object.is_object()) fail(where, "is not an object");
  std::string list;
  for (const char* name : names) {
    if (const auto found = object.find(name); found != object.end()) return *found;
    list += (list.empty() ? "'" : "' or '") + std::string(name);
  }
  fail(where, "has no " + list + "'");
}

const Json& listField(const Json& object, std::initializer_list<const char*> names,
                      const std::string& where) {
  const Json& list = field(object, names, where);
  if (!list.is_array()) fail(where, "has a '" + std::string(*names.begin()) + "' that is no list");
  return list;
}

// Sizes and durations; a fraction is rounded up.
std::int64_t amount(const Json& node, std::initializer_list<const char*> names,
                    const std::string& where) {
  const Json& number = field(node, names, where);
  const std::string what = "has " + std::string(*names.begin()) + " " + number.dump() + ", which ";
  if (!number.is_number()) fail(where, what + "is not a number");
  if (number.is_number_float()) {
    const double value = std::ceil(number.get<double>());
    if (!(value >= 0)) fail(where, what + "is negative or not a number");
    if (value >= 0x1p62) fail(where, what + "does not fit 63 bits");
    return static_cast<std::int64_t>(value);
  }
  if (number.is_number_unsigned()) {
    if (!std::in_range<std::int64_t>(number.get<std::uint64_t>())) {
      fail(where, what + "does not fit 63 bits");
    }
  } else if (number.get<std::int64_t>() < 0) {
    fail(where, what + "is negative");
  }
  return number.get<std::int64_t>();
}

class Reader {
 public:
  explicit Reader(const Json& file) : nodes_(listField(file, {"nodes"}, "the file")) {
    if (!file.value("directed", true)) fail("the file", "is not directed");
    readNodes();
    readOrder(file);
    readLinks(listField(file, {"links", "edges"}, "the file"));
  }

  Graph take() { return std::move(graph_); }

 private:
  void readNodes() {
    if (nodes_.size() >= static_cast<std::size_t>(std::numeric_limits<std::int32_t>::max())) {
      fail("nodes", "are more than 31 bits can name");
    }
    for (std::size_t i = 0; i < nodes_.size(); ++i) {
      const Json& id = field(nodes_[i], {"id", "name"}, at("nodes", i));
      if (!node_of_.emplace(id.dump(), i).second) {
        fail(at("nodes", i), "has id " + id.dump() + " again");
      }
    }
  }

  std::size_t nodeOf(const Json& id, const std::string& where) const {
    const auto found = node_of_.find(id.dump());
    if (found == node_of_.end()) fail(where, "names node " + id.dump() + ", which does not exist");
    return found->second;
  }

  // Ops and values in the input order; op i makes value i.
  void readOrder(const Json& file) {
    std::vector<std::size_t> order;
    const auto attributes = file.find("graph");
    if (attributes != file.end() && attributes->is_object() && attributes->contains("order")) {
      const Json& ids = listField(*attributes, {"order"}, "graph");
      for (const Json& id : ids) order.push_back(nodeOf(id, at("graph.order", order.size())));
    } else {
      for (std::size_t i = 0; i < nodes_.size(); ++i) order.push_back(i);
    }
    op_of_.assign(nodes_.size(), kNone);
    for (std::size_t i = 0; i < order.size(); ++i) {
      if (op_of_[order[i]] != kNone) fail(at("graph.order", i), "names a node again");
      op_of_[order[i]] = static_cast<OpId>(i);
      addOp(order[i], static_cast<OpId>(i));
    }
    if (order.size() != nodes_.size()) fail("graph.order", "does not name every node");
  }

  void addOp(std::size_t index, OpId id) {
    const Json& node = nodes_[index];
    const std::string where = at("nodes", index);
    Op op;
    const Json& name = field(node, {"name", "id"}, where);
    op.name = name.is_string() ? name.get<std::string>() : name.dump();
    op.duration_ns = amount(node, {"cost_cpu", "duration"}, where);
    op.rerunnable = true;
    op.outputs = {id};
    graph_.ops.push_back(std::move(op));
    Value value;
    value.bytes = amount(node, {"cost_ram", "out_cost"}, where);
    value.producer = id;
    graph_.values.push_back(value);
  }

  void readLinks(const Json& links) {
    for (std::size_t i = 0; i < links.size(); ++i) {
      const std::string where = at("links", i);
      const OpId from = op_of_[nodeOf(field(links[i], {"source", "0"}, where), where)];
      const OpId to = op_of_[nodeOf(field(links[i], {"target", "1"}, where), where)];
      if (from >= to) {
        fail(where, "goes from '" + graph_.ops[from].name + "' to '" + graph_.ops[to].name +
                        "' against the input order: the graph has a cycle, or its order is not "
                        "topological");
      }
      auto& inputs = graph_.ops[to].inputs;
      if (std::find(inputs.begin(), inputs.end(), from) == inputs.end()) inputs.push_back(from);
    }
  }

  const Json& nodes_;
  std::map<std::string, std::size_t> node_of_;  // by the id as JSON text
  std::vector<OpId> op_of_;                     // per node
  Graph graph_;
};

}  // namespace

Graph moccasinGraphFromJson(const std::string& text) {
  try {
    Graph graph = Reader(Json::parse(text)).take();
    graph.any_order = true;
    checkGraph(graph);
    return graph;
  } catch (const Json::exception& error) {  // says the line and column where the text is no JSON
    throw std::invalid_argument(std::string("moccasin graph: ") + error.what());
  }
}

}  // namespace ebbtide::scheduler
