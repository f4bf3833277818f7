#include "ebbtide/scheduler/graph_file.hpp"

#include <gtest/gtest.h>

#include <stdexcept>
#include <string>
#include <vector>

#include "ebbtide/scheduler/simulator.hpp"
#include "ebbtide/scheduler/trace.hpp"
#include "random_graphs.hpp"
#include "small_graphs.hpp"
#include "small_traces.hpp"

namespace ebbtide::scheduler {
namespace {

Graph read(const std::string& text, GraphFormat format = GraphFormat::kAuto) {
  return readGraph(text, format, CostModel::kReal);
}

std::string problem(const std::string& text, GraphFormat format = GraphFormat::kAuto,
                    CostModel model = CostModel::kReal) {
  try {
    readGraph(text, format, model);
  } catch (const std::invalid_argument& error) {
    return error.what();
  }
  return "";
}

std::string file(const std::string& ops, const std::string& values) {
  return R"({"format":"ebbtide-graph-1","ops":[)" + ops + R"(],"values":[)" + values + "]}";
}

// --- ebbtide-graph-1
// ------------------------------------------------------------------------------

TEST(GraphJson, ReadsEveryField) {
  const Graph graph = read(
      file(R"({"name":"a","duration_ns":5,"workspace_bytes":1,"fixed_bytes":9,"fixed_at_start":2,)"
           R"("rerunnable":true,"inputs":[0],"outputs":[1,2]},)"
           R"({"duration_ns":6,"inputs":[1],"outputs":[3]},)"
           R"({"duration_ns":7,"backward":true,"inputs":[2],"outputs":[]},)"
           R"({"duration_ns":0,"waits":true,"inputs":[],"outputs":[]})",
           R"({"bytes":40,"pinned":true},{"bytes":50,"natural_last":1,"overwritten_by":1},)"
           R"({"bytes":60},{"bytes":50,"previous_epoch":1})"));
  ASSERT_EQ(graph.ops.size(), 4u);
  const Op& op = graph.ops[0];
  EXPECT_EQ(op.name, "a");
  EXPECT_EQ(op.duration_ns, 5);
  EXPECT_EQ(op.workspace_bytes, 1);
  EXPECT_EQ(op.fixed_bytes, 9);
  EXPECT_EQ(op.fixed_at_start, 2);
  EXPECT_TRUE(op.rerunnable);
  EXPECT_FALSE(op.backward);
  EXPECT_EQ(op.inputs, (std::vector<ValueId>{0}));
  EXPECT_EQ(op.outputs, (std::vector<ValueId>{1, 2}));
  EXPECT_EQ(graph.ops[1].fixed_at_start, kNone);
  EXPECT_TRUE(graph.ops[2].backward);
  EXPECT_FALSE(graph.ops[2].waits);
  EXPECT_TRUE(graph.ops[3].waits);
  ASSERT_EQ(graph.values.size(), 4u);
  EXPECT_TRUE(graph.values[0].pinned);
  EXPECT_EQ(graph.values[0].producer, kNone);
  EXPECT_EQ(graph.values[1].producer, 0);
  EXPECT_EQ(graph.values[1].last_reference, 1);
  EXPECT_EQ(graph.values[1].overwritten_by, 1);
  EXPECT_EQ(graph.values[2].last_reference, kNone);
  EXPECT_EQ(graph.values[3].previous_epoch, 1);
  EXPECT_FALSE(graph.any_order || graph.lazy_outputs);
}

TEST(GraphJson, ComesBackAsItWas) {
  for (std::uint64_t seed = 0; seed < 50; ++seed) {
    const Graph graph = withWaits(randomGraph(seed, 2 + seed), seed);
    const Graph again = read(toJson(graph));
    EXPECT_EQ(toJson(again), toJson(graph)) << seed;
    const Simulation first = simulate(graph, keepEverything(graph));
    const Simulation second = simulate(again, keepEverything(again));
    EXPECT_EQ(first.live_bytes, second.live_bytes) << seed;
    EXPECT_EQ(first.duration_ns, second.duration_ns) << seed;
  }
}

TEST(GraphJson, KeepsThePaperModelsRules) {
  Graph graph;
  graph.any_order = graph.lazy_outputs = true;
  const ValueId source = addGraphInput(graph, 5);
  addForward(graph, {source}, 10, 1);
  graph.values[source].last_reference = kNone;
  const Graph again = read(toJson(graph));
  EXPECT_TRUE(again.any_order);
  EXPECT_TRUE(again.lazy_outputs);
}

TEST(GraphJson, EscapesNames) {
  Graph graph = chain(1);
  graph.ops[0].name = "a \"quoted\"\n\\ name";
  EXPECT_EQ(read(toJson(graph)).ops[0].name, graph.ops[0].name);
  graph.ops[0].name = "\xff";  // not UTF-8
  EXPECT_EQ(read(toJson(graph)).ops[0].name, "\xef\xbf\xbd");
}

struct Damage {
  std::string ops, values, message;
};

TEST(GraphJson, NamesWhatIsWrongAndWhere) {
  const std::string op = R"({"duration_ns":1,"rerunnable":true,"inputs":[0],"outputs":[1]})";
  const std::string values = R"({"bytes":1},{"bytes":1})";
  ASSERT_EQ(problem(file(op, values)), "");
  const Damage damages[] = {
      {"", "", "graph: has no ops"},
      {"7", values, "graph: ops[0]: expected an object, not 7"},
      {op + "," + R"({"inputs":[],"outputs":[]})", values,
       "graph: ops[1]: 'duration_ns' is missing"},
      {R"({"duration_ns":1,"inputs":[0,2],"outputs":[1]})", values,
       "graph: ops[0].inputs[1]: value 2 does not exist"},
      {R"({"duration_ns":1,"inputs":[-1],"outputs":[1]})", values,
       "graph: ops[0].inputs[0]: value -1 does not exist"},
      {R"({"duration_ns":1,"inputs":[0,0],"outputs":[1]})", values,
       "graph: ops[0].inputs[1]: value 0 is listed twice"},
      {op + "," + op, values, "graph: ops[1].outputs[0]: value 1 is made by ops[0] already"},
      {R"({"duration_ns":1,"inputs":[0],"outputs":[4]})", values,
       "graph: ops[0].outputs[0]: value 4 does not exist"},
      {R"({"duration_ns":1,"inputs":[0],"outputs":[1]},{"duration_ns":1,"inputs":[1],"outputs":[0]})",
       values,
       "graph: ops[0].inputs[0]: value 0 is made by ops[1], not before it is read: a cycle, or "
       "ops that are not in order"},
      {R"({"duration_ns":1,"inputs":[1],"outputs":[1]})", values,
       "graph: ops[0].inputs[0]: value 1 is made by ops[0], not before it is read: a cycle, or "
       "ops that are not in order"},
      {R"({"duration_ns":-1,"inputs":[0],"outputs":[1]})", values,
       "graph: op 0 () has a negative duration"},
      {R"({"duration_ns":1.5,"inputs":[0],"outputs":[1]})", values,
       "graph: ops[0]: duration_ns: 1.5 is not a whole number of 64 bits"},
      {op, R"({"bytes":-1},{"bytes":1})", "graph: value 0 has negative bytes"},
      {op, R"({"bytes":1},{"bytes":1,"size":1})",
       "graph: values[1]: unknown key 'size'; known: bytes natural_last saved_last overwritten_by "
       "previous_epoch pinned"},
      {op, R"({"bytes":1},{"bytes":9223372036854775808})",
       "graph: values[1]: bytes: 9223372036854775808 is not a whole number of 64 bits"},
      {op, R"({"bytes":9000000000000000000},{"bytes":9000000000000000000})",
       "graph: the graph's bytes do not fit 60 bits"},
      {op, R"({"bytes":1},{"bytes":1,"natural_last":5})",
       "graph: value 1 names op 5, which does not exist"},
      {op, R"({"bytes":1},{"bytes":1,"previous_epoch":1})",
       "graph: value 1 names value 1 as its previous epoch"},
  };
  for (const Damage& damage : damages) {
    EXPECT_EQ(problem(file(damage.ops, damage.values)), damage.message);
  }
}

TEST(GraphJson, NamesTheLineOfATruncatedFile) {
  const std::string whole = toJson(chain(3));
  // Without the last 3 bytes, "]}" and the newline, the last of its 18 lines (1, "ops", 6 ops,
  // "values", 4 values, so 13) is open.
  const std::string message = problem(whole.substr(0, whole.size() - 3));
  EXPECT_EQ(message.substr(0, 16), "graph: line 13: ") << message;
}

// --- formats
// --------------------------------------------------------------------------------------

TEST(GraphFormats, HaveNames) {
  EXPECT_EQ(graphFormatFromName("auto"), GraphFormat::kAuto);
  EXPECT_EQ(graphFormatFromName("moccasin"), GraphFormat::kMoccasin);
  try {
    graphFormatFromName("onnx");
    FAIL();
  } catch (const std::invalid_argument& error) {
    EXPECT_STREQ(error.what(),
                 "unknown format 'onnx'; known: auto, trace, kusumoto, moccasin, chain, graph");
  }
}

TEST(GraphFormats, AreTold) {
  EXPECT_EQ(read(toJson(chain(3))).ops.size(), 6u);
  EXPECT_EQ(read("\n " + toJson(twoOps())).ops.size(), 4u);
  EXPECT_EQ(read(R"({"nodes":[{"id":0,"duration":1,"out_cost":2}],"links":[]})").ops.size(), 1u);
  EXPECT_EQ(read("1 1\n0 8 _\nforward\n0 1\n0\nReLU\n{\"rank\": 0}\n").ops.size(), 1u);
}

TEST(GraphFormats, TheirOwnMessages) {
  EXPECT_EQ(problem(""), "graph: the file is empty");
  EXPECT_EQ(problem(" \n"), "graph: the file is empty");
  const std::string unknown =
      "graph: of no known format: 'format' should be ebbtide-trace-1, ebbtide-chain-1 or "
      "ebbtide-graph-1, or there should be 'nodes' and 'links'";
  for (const char* text : {"[]", "{}", "null", R"({"format":1})", R"({"format":"ebbtide-graph-2"})",
                           R"({"nodes":[]})"}) {
    EXPECT_EQ(problem(text), unknown) << text;
  }
  EXPECT_EQ(problem("1 1\n0 8"), "graph: line 2: the variable's name is missing");
  EXPECT_EQ(problem(toJson(twoOps()), GraphFormat::kGraph),
            "graph: format is not 'ebbtide-graph-1'");
  EXPECT_EQ(problem(toJson(chain(2)), GraphFormat::kTrace),
            "trace: format is not 'ebbtide-trace-1'");
}

TEST(GraphFormats, OnlyPapersHaveAPaperModel) {
  const std::string message =
      " stands for itself: the paper's model is for kusumoto, moccasin and chain files";
  EXPECT_EQ(problem(toJson(chain(2)), GraphFormat::kAuto, CostModel::kPaper),
            "a graph file" + message);
  EXPECT_EQ(problem(toJson(twoOps()), GraphFormat::kAuto, CostModel::kPaper), "a trace" + message);
}

}  // namespace
}  // namespace ebbtide::scheduler
