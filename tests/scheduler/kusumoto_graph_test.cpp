#include "io/kusumoto_graph.hpp"

#include <gtest/gtest.h>

#include <random>
#include <stdexcept>

#include "ebbtide/scheduler/simulator.hpp"
#include "planners/lower_sets/canonical_model.hpp"

namespace ebbtide::scheduler {
namespace {

// Weights 0 (8 bytes) and data 1 (100) -> convolution -> 2 (40) -> ReLU -> 3 (40) -> loss -> 4 (4);
// 3 is added to 2 first, so that 2 has two readers and its gradient two contributions.
const std::string kText = R"(6 8
0 8 /conv/W
1 100 x
4 4 _
2 40 _
3 40 _
5 40 _
forward
1 1
2 _
3
ReLU
{"rank": 1}
forward
2 1
1 _
0 _
2
Convolution2DFunction
{"a": [0], "rank": 0}
forward
2 1
2 _
3 _
5
Add
{"rank": 2}
forward
1 1
5 _
4
SoftmaxCrossEntropy
{"rank": 3}
backward
3 1
2 gradient
1 input
0 input
0
Convolution2DFunction
{"rank": 0}
backward
2 1
3 gradient
3 output
2
ReLU
{"rank": 1}
backward
1 2
5 gradient
2
3
Add
{"rank": 2}
backward
2 1
4 gradient
5 input
5
SoftmaxCrossEntropy
{"rank": 3}
)";

TEST(KusumotoGraph, PaperNodesAreTheForwardOutputs) {
  const auto problem = canonicalProblem(kusumotoGraph(kText, CostModel::kPaper));
  ASSERT_TRUE(problem);
  // By rank: 2 (convolution), 3, 5, 4.
  EXPECT_EQ(problem->memory, (std::vector<std::int64_t>{40, 40, 40, 4}));
  const std::int64_t unit = kKusumotoTimeUnit;
  EXPECT_EQ(problem->time, (std::vector<std::int64_t>{10 * unit, unit, unit, unit}));
  EXPECT_EQ(problem->next, (std::vector<std::vector<std::int32_t>>{{1, 2}, {2}, {3}, {}}));
  EXPECT_EQ(kusumotoGraph(kText, CostModel::kPaper).ops[0].name, "Convolution2DFunction");
}

TEST(KusumotoGraph, RealFunctionsAreAsInTheFile) {
  const Graph graph = kusumotoGraph(kText, CostModel::kReal);
  ASSERT_EQ(graph.ops.size(), 8u);  // 0 convolution, 1 ReLU, 2 add, 3 loss, then backward 3 2 1 0
  // Values: 0 weights, 1 data, 2 to 5 forward, 6 gradient of variable 5, 7 of 2, 8 of 3, 9 of 2
  // again with the ReLU's contribution.
  EXPECT_TRUE(graph.values[0].pinned && graph.values[1].pinned);
  EXPECT_EQ(graph.ops[4].inputs, (std::vector<ValueId>{4}));  // the loss's gradient is a constant
  EXPECT_EQ(graph.ops[5].outputs, (std::vector<ValueId>{7, 8}));
  EXPECT_EQ(graph.ops[6].inputs, (std::vector<ValueId>{3, 7, 8}));
  EXPECT_EQ(graph.values[9].previous_epoch, 7);
  EXPECT_EQ(graph.values[7].overwritten_by, 6);
  EXPECT_EQ(graph.ops[7].inputs, (std::vector<ValueId>{0, 1, 9}));
  EXPECT_EQ(graph.ops[0].fixed_bytes, 108);
  EXPECT_EQ(graph.ops[7].fixed_bytes, 116);  // and the weights' gradient
  EXPECT_EQ(graph.values[2].last_reference, 2);
  EXPECT_EQ(graph.ops[7].duration_ns, 20 * kKusumotoTimeUnit);
  // The peak: backward of the loss has 108 + value 3 (kept for the ReLU), value 5's 40 and its
  // gradient; backward of the add 108 + value 3 + gradients of 5, 2 and 3: 108 + 4 * 40.
  EXPECT_EQ(simulate(graph, keepEverything(graph)).peak_bytes, 268);
}

// What is replaced, by what, and what the message must hold.
struct Fault {
  std::string from, to, message;
};

TEST(KusumotoGraph, SaysWhereTheTextIsWrong) {
  const std::vector<Fault> faults = {
      {"6 8\n", "6\n", "line 1: the number of functions is missing"},
      {"6 8\n", "6 8 9\n", "line 1: there is more"},
      {"6 8\n", "600 8\n", "line 1: the number of variables is more"},
      {"6 8\n", "6 9\n", "the file ends where a function should be"},
      {"6 8\n", "6 7\n", "there is more on the line"},
      {"0 8 /conv/W", "7 8 /conv/W", "line 2: the variable's id is not below"},
      {"0 8 /conv/W", "1 8 /conv/W", "line 3: variable 1 comes twice"},
      {"0 8 /conv/W", "0 -8 /conv/W", "line 2: the variable's size is not a number"},
      {"0 8 /conv/W", "0 8", "line 2: the variable's name is missing"},
      {"0 8 /conv/W", "0 9223372036854775807 /conv/W", "line 2: the sizes' sum"},
      {"0 8 /conv/W", "0 99999999999999999999 /conv/W", "line 2: the variable's size"},
      {"forward\n1 1\n2 _", "sideways\n1 1\n2 _", "line 8: neither 'forward' nor 'backward'"},
      {"1 1\n2 _\n3\nReLU", "1 1\n9 _\n3\nReLU", "line 10: no variable 9"},
      {"1 1\n2 _\n3\nReLU", "1 1\n2\n3\nReLU", "line 10: the input's tag is missing"},
      {"1 1\n2 _\n3\nReLU", "1 1\n2 gradient\n3\nReLU", "line 8: a forward function reads a"},
      {"1 2\n5 gradient\n2\n3", "1 2\n5 gradient\n3\n3", "the function's output 3 comes twice"},
      {"{\"rank\": 1}", "{}", "line 13: no \"rank\""},
      {"{\"rank\": 1}", "{\"rank\": null}", "line 13: no \"rank\""},
      {"{\"rank\": 1}", "{\"rank\": 5}", "line 8: variable 3 is read by a function"},
      {"3\nReLU\n{\"rank\": 1}", "2\nReLU\n{\"rank\": 1}", "line 8: variable 2 is made a second"}};
  for (const Fault& fault : faults) {
    std::string text = kText;
    const std::size_t at = text.find(fault.from);
    ASSERT_NE(at, std::string::npos) << fault.from;
    text.replace(at, fault.from.size(), fault.to);
    try {
      kusumotoGraph(text, CostModel::kReal);
      ADD_FAILURE() << fault.message;
    } catch (const std::invalid_argument& error) {
      EXPECT_NE(std::string(error.what()).find(fault.message), std::string::npos) << error.what();
    }
  }
}

// Whatever the text, a graph that passes checkGraph() or std::invalid_argument.
TEST(KusumotoGraph, SurvivesDamagedText) {
  std::mt19937_64 random(1);
  const std::string pieces = "0123456789 \n-_{}\"frk";
  int parsed = 0;
  for (int i = 0; i < 4000; ++i) {
    std::string text = kText;
    if (i % 4 == 0) text.resize(random() % text.size());
    for (std::uint64_t change = random() % 4; change-- > 0 && !text.empty();) {
      const std::size_t at = random() % text.size();
      const char letter = pieces[random() % pieces.size()];
      if (random() % 2 == 0)
        text[at] = letter;
      else
        text.insert(at, 1, letter);
    }
    for (const CostModel model : {CostModel::kPaper, CostModel::kReal}) {
      try {
        const Graph graph = kusumotoGraph(text, model);
        simulate(graph, keepEverything(graph));
        ++parsed;
      } catch (const std::invalid_argument&) {
      }
    }
  }
  EXPECT_GT(parsed, 100);
}

TEST(KusumotoGraph, MayBeEmpty) {
  EXPECT_TRUE(kusumotoGraph("0 0\n", CostModel::kPaper).ops.empty());
  EXPECT_TRUE(kusumotoGraph("0 0", CostModel::kReal).ops.empty());
  EXPECT_THROW(kusumotoGraph("", CostModel::kReal), std::invalid_argument);
}

}  // namespace
}  // namespace ebbtide::scheduler
