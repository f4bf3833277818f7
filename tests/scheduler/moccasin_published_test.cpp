// Reading of node-link JSON, and the published graphs of moccasin2023 (Tables 2, 3).
#include <gtest/gtest.h>

#include <fstream>
#include <ostream>
#include <sstream>
#include <stdexcept>
#include <string>

#include "ebbtide/scheduler/planner.hpp"
#include "ebbtide/scheduler/simulator.hpp"
#include "ebbtide/scheduler/validator.hpp"
#include "io/moccasin_graph.hpp"
#include "layered_graph.hpp"

namespace ebbtide::scheduler {
namespace {

const std::string kNodes =
    R"("nodes":[{"id":"a","cost_cpu":2,"cost_ram":10},{"id":"b","cost_cpu":3.5,"cost_ram":20}])";

std::string file(const std::string& nodes, const std::string& links,
                 const std::string& graph = "{}") {
  return "{\"directed\":true,\"graph\":" + graph + "," + nodes + ",\"links\":" + links + "}";
}

void expectRejected(const std::string& text, const std::string& part) {
  try {
    moccasinGraphFromJson(text);
    FAIL() << text;
  } catch (const std::invalid_argument& error) {
    EXPECT_NE(std::string(error.what()).find(part), std::string::npos) << error.what();
  }
}

TEST(MoccasinGraph, ReadsCheckmatesKeys) {
  const Graph graph = moccasinGraphFromJson(file(kNodes, R"([{"source":"a","target":"b"}])"));
  ASSERT_EQ(graph.ops.size(), 2u);
  EXPECT_EQ(graph.ops[1].duration_ns, 4);  // 3.5 rounded up
  EXPECT_EQ(graph.ops[1].inputs, std::vector<ValueId>{0});
  EXPECT_EQ(graph.values[1].bytes, 20);
  EXPECT_TRUE(graph.ops[0].rerunnable && graph.any_order);
  EXPECT_EQ(simulate(graph, keepEverything(graph)).peak_bytes, 30);  // b runs beside its input
}

TEST(MoccasinGraph, ReadsLayeredKeysInTheFilesOrder) {
  const Graph graph = moccasinGraphFromJson(
      R"({"graph":{"order":[1,0]},"nodes":[{"name":0,"duration":5,"out_cost":7},)"
      R"({"name":1,"duration":6,"out_cost":8}],"links":[{"0":1,"1":0}]})");
  ASSERT_EQ(graph.ops.size(), 2u);
  EXPECT_EQ(graph.ops[0].duration_ns, 6);
  EXPECT_EQ(graph.values[1].bytes, 7);
}

TEST(MoccasinGraph, SaysWhatIsWrongAndWhere) {
  expectRejected("{\"nodes\":[", "parse error");
  expectRejected("[]", "the file is not an object");
  expectRejected("{\"links\":[]}", "no 'nodes'");
  expectRejected(file(kNodes, "3"), "is no list");
  expectRejected(file(R"("nodes":[{"id":1,"cost_cpu":-1,"cost_ram":0}])", "[]"), "nodes[0]");
  expectRejected(file(R"("nodes":[{"id":1,"cost_cpu":1,"cost_ram":1e300}])", "[]"), "63 bits");
  expectRejected(file(R"("nodes":[{"id":1,"cost_cpu":1,"cost_ram":18446744073709551615}])", "[]"),
                 "63 bits");
  expectRejected(file(R"("nodes":[{"id":1,"cost_cpu":"1","cost_ram":0}])", "[]"), "not a number");
  expectRejected(file(R"("nodes":[{"id":1,"cost_cpu":1}])", "[]"), "'cost_ram' or 'out_cost'");
  expectRejected(file(R"("nodes":[{"id":1,"cost_cpu":1,"cost_ram":1},{"id":1}])", "[]"), "again");
  expectRejected(file(kNodes, R"([{"source":"a","target":"c"}])"), "does not exist");
  expectRejected(file(kNodes, R"([{"source":"b","target":"a"}])"), "links[0] goes from 'b'");
  expectRejected(file(kNodes, R"([{"source":"a","target":"a"}])"), "cycle");
  expectRejected(file(kNodes, "[]", R"({"order":["a"]})"), "every node");
  expectRejected(file(kNodes, "[]", R"({"order":["a","a"]})"), "again");
}

Graph published(const std::string& name) {
  std::ifstream in(std::string(EBBTIDE_PUBLISHED_DATA) + "/graphs/moccasin/" + name + ".json");
  EXPECT_TRUE(in) << name;
  std::stringstream text;
  text << in.rdbuf();
  return moccasinGraphFromJson(text.str());
}

struct Case {
  const char* name;
  Bytes peak;  // of the input order without rematerialization
  Bytes percent;
  double most_increase;  // Table 3's TDI of MOCCASIN, percent, its rounding added
  friend void PrintTo(const Case& one, std::ostream* out) {
    *out << one.name << " at " << one.percent << " %";
  }
};

class MoccasinTable : public testing::TestWithParam<Case> {};

TEST_P(MoccasinTable, LocalSearchIsAsGood) {
  if (std::string(EBBTIDE_PUBLISHED_DATA).empty()) {
    GTEST_SKIP() << "set EBBTIDE_PUBLISHED_DATA (docs/planning.md) and configure again";
  }
  const Graph graph = published(GetParam().name);
  EXPECT_EQ(simulate(graph, keepEverything(graph)).peak_bytes, GetParam().peak);
  PlannerOptions options;
  options.named["work"] = "100000";
  const Bytes budget = GetParam().peak / 100 * GetParam().percent;
  const PlanResult result = planner("moccasin-local").plan(graph, budget, options);
  EXPECT_EQ(validate(graph, result.schedule).value_or(""), "");
  EXPECT_TRUE(result.feasible);
  EXPECT_LE(100.0 * static_cast<double>(result.recompute_ns),
            GetParam().most_increase * static_cast<double>(graph.totalDurationNs()));
}

// Peaks: the paper's budgets over 0.9 and 0.8. G2 at 80 % took the paper 640 s for 4.9 %.
INSTANTIATE_TEST_SUITE_P(Moccasin, MoccasinTable,
                         testing::Values(Case{"random_layered_g1_n100", 46'319, 90, 0.85},
                                         Case{"random_layered_g1_n100", 46'319, 80, 2.35},
                                         Case{"random_layered_g2_n250", 146'840, 90, 0.95},
                                         Case{"random_layered_g2_n250", 146'840, 80, 4.95},
                                         Case{"cm1_fcn8_vgg_train", 13'484'795'520, 90, 0.05},
                                         Case{"cm1_fcn8_vgg_train", 13'484'795'520, 80, 0.15}));

TEST(LayeredGraph, HasThePapersSize) {
  // moccasin2023, G4: 1000 nodes, 5875 edges, a peak of 547,757 / 0.9 = 608,619.
  LayeredGraph layers({.nodes = 1000}, 101);
  EXPECT_NEAR(static_cast<double>(layers.edges()), 5875, 600);
  const Graph graph = layers.take();
  checkGraph(graph);
  EXPECT_EQ(graph.ops.size(), 1000u);
  const Bytes peak = simulate(graph, keepEverything(graph)).peak_bytes;
  EXPECT_NEAR(static_cast<double>(peak), 608'619, 100'000);
}

}  // namespace
}  // namespace ebbtide::scheduler
