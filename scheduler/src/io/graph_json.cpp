#include "io/graph_json.hpp"

#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>
#include <utility>

#include "base/json_text.hpp"
#include "ebbtide/scheduler/graph_file.hpp"

namespace ebbtide::scheduler {
namespace {

constexpr const char* kFormat = "ebbtide-graph-1";

std::string indexed(const char* list, std::size_t index) {
  return std::string(list) + "[" + std::to_string(index) + "]";
}

Op readOp(const JsonObject& fields) {
  fields.expectOnly({"name", "duration_ns", "workspace_bytes", "fixed_bytes", "fixed_at_start",
                     "rerunnable", "backward", "waits", "inputs", "outputs"});
  Op op;
  op.name = fields.textOr("name", "");
  op.duration_ns = fields.integer("duration_ns");
  op.workspace_bytes = fields.integerOr("workspace_bytes", 0);
  op.fixed_bytes = fields.integerOr("fixed_bytes", 0);
  op.fixed_at_start = fields.integerOr("fixed_at_start", kNone);
  op.rerunnable = fields.booleanOr("rerunnable", false);
  op.backward = fields.booleanOr("backward", false);
  op.waits = fields.booleanOr("waits", false);
  op.inputs = fields.ids("inputs");
  op.outputs = fields.ids("outputs");
  return op;
}

Value readValue(const JsonObject& fields) {
  fields.expectOnly(
      {"bytes", "natural_last", "saved_last", "overwritten_by", "previous_epoch", "pinned"});
  Value value;
  value.bytes = fields.integer("bytes");
  value.last_reference = fields.idOr("natural_last", kNone);
  value.saved_last = fields.idOr("saved_last", kNone);
  value.overwritten_by = fields.idOr("overwritten_by", kNone);
  value.previous_epoch = fields.idOr("previous_epoch", kNone);
  value.pinned = fields.booleanOr("pinned", false);
  return value;
}

// The producer of a value is the op that lists it as an output.
void setProducers(Graph& graph) {
  for (std::size_t op = 0; op < graph.ops.size(); ++op) {
    for (std::size_t i = 0; i < graph.ops[op].outputs.size(); ++i) {
      const ValueId id = graph.ops[op].outputs[i];
      const std::string where = "graph: " + indexed("ops", op) + "." + indexed("outputs", i) + ": ";
      if (id < 0 || static_cast<std::size_t>(id) >= graph.values.size()) {
        throw std::invalid_argument(where + "value " + std::to_string(id) + " does not exist");
      }
      OpId& producer = graph.values[id].producer;
      if (producer != kNone) {
        throw std::invalid_argument(where + "value " + std::to_string(id) + " is made by " +
                                    indexed("ops", producer) + " already");
      }
      producer = static_cast<OpId>(op);
    }
  }
}

// checkGraph() says the same of a graph from anywhere; here the reader of a file is told where.
void checkInputs(const Graph& graph) {
  std::vector<std::size_t> reader(graph.values.size(), graph.ops.size());
  for (std::size_t op = 0; op < graph.ops.size(); ++op) {
    for (std::size_t i = 0; i < graph.ops[op].inputs.size(); ++i) {
      const ValueId id = graph.ops[op].inputs[i];
      const auto fail = [&](const std::string& what) {
        throw std::invalid_argument("graph: " + indexed("ops", op) + "." + indexed("inputs", i) +
                                    ": value " + std::to_string(id) + what);
      };
      if (id < 0 || static_cast<std::size_t>(id) >= graph.values.size()) fail(" does not exist");
      if (reader[id] == op) fail(" is listed twice");
      reader[id] = op;
      const OpId producer = graph.values[id].producer;
      if (producer >= static_cast<OpId>(op)) {
        fail(" is made by " + indexed("ops", producer) +
             ", not before it is read: a cycle, or ops that are not in order");
      }
    }
  }
}

// Fields at their default are left out.
class GraphText {
 public:
  std::string write(const Graph& graph) {
    text_ = std::string("{\"format\":\"") + kFormat + '"';
    if (graph.any_order) text_ += ",\"any_order\":true";
    if (graph.lazy_outputs) text_ += ",\"lazy_outputs\":true";
    text_ += ",\n\"ops\":[";
    for (std::size_t i = 0; i < graph.ops.size(); ++i) {
      text_ += i == 0 ? "\n" : ",\n";
      writeOp(graph.ops[i]);
    }
    text_ += "],\n\"values\":[";
    for (std::size_t i = 0; i < graph.values.size(); ++i) {
      text_ += i == 0 ? "\n" : ",\n";
      writeValue(graph.values[i]);
    }
    text_ += "]}\n";
    return std::move(text_);
  }

 private:
  void writeOp(const Op& op) {
    text_ += '{';
    if (!op.name.empty()) {
      // A name from elsewhere need not be UTF-8; a file is.
      text_ +=
          "\"name\":" +
          nlohmann::json(op.name).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) +
          ',';
    }
    text_ += "\"duration_ns\":" + std::to_string(op.duration_ns);
    number("workspace_bytes", op.workspace_bytes, 0);
    number("fixed_bytes", op.fixed_bytes, 0);
    number("fixed_at_start", op.fixed_at_start, kNone);
    flag("rerunnable", op.rerunnable);
    flag("backward", op.backward);
    flag("waits", op.waits);
    ids("inputs", op.inputs);
    ids("outputs", op.outputs);
    text_ += '}';
  }

  void writeValue(const Value& value) {
    text_ += "{\"bytes\":" + std::to_string(value.bytes);
    number("natural_last", value.last_reference, kNone);
    number("saved_last", value.saved_last, kNone);
    number("overwritten_by", value.overwritten_by, kNone);
    number("previous_epoch", value.previous_epoch, kNone);
    flag("pinned", value.pinned);
    text_ += '}';
  }

  void number(const char* key, std::int64_t value, std::int64_t otherwise) {
    if (value != otherwise) text_ += std::string(",\"") + key + "\":" + std::to_string(value);
  }

  void flag(const char* key, bool value) {
    if (value) text_ += std::string(",\"") + key + "\":true";
  }

  void ids(const char* key, const std::vector<ValueId>& list) {
    text_ += std::string(",\"") + key + "\":[";
    for (std::size_t i = 0; i < list.size(); ++i) {
      if (i > 0) text_ += ',';
      text_ += std::to_string(list[i]);
    }
    text_ += ']';
  }

  std::string text_;
};

}  // namespace

Graph graphFromTree(const nlohmann::json& tree) {
  const JsonObject fields(tree, "graph");
  fields.expectFormat(kFormat);
  fields.expectOnly({"format", "any_order", "lazy_outputs", "ops", "values"});
  Graph graph;
  graph.any_order = fields.booleanOr("any_order", false);
  graph.lazy_outputs = fields.booleanOr("lazy_outputs", false);
  for (const nlohmann::json& item : fields.list("ops")) {
    graph.ops.push_back(readOp({item, "graph: " + indexed("ops", graph.ops.size())}));
  }
  for (const nlohmann::json& item : fields.list("values")) {
    graph.values.push_back(readValue({item, "graph: " + indexed("values", graph.values.size())}));
  }
  setProducers(graph);
  checkInputs(graph);
  return graph;
}

std::string toJson(const Graph& graph) {
  return GraphText().write(graph);
}

}  // namespace ebbtide::scheduler
