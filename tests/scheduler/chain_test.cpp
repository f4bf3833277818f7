#include "model/chain.hpp"

#include <gtest/gtest.h>

#include <limits>
#include <stdexcept>
#include <string>

#include "ebbtide/scheduler/simulator.hpp"
#include "ebbtide/scheduler/validator.hpp"
#include "small_chains.hpp"
#include "small_graphs.hpp"

namespace ebbtide::scheduler {
namespace {

std::string complaint(const Chain& chain) {
  try {
    checkChain(chain);
  } catch (const std::invalid_argument& error) {
    return error.what();
  }
  return {};
}

TEST(Chain, NamesTheListThatIsWrong) {
  EXPECT_EQ(complaint(toyChain()), "");
  EXPECT_NE(complaint(Chain{}).find("at least one stage"), std::string::npos);
  Chain chain = toyChain();
  chain.saved_bytes.pop_back();
  EXPECT_EQ(complaint(chain), "a chain of 7 stages has 6 entries in saved_bytes");
  chain = toyChain();
  chain.backward_ns[3] = -1;
  EXPECT_EQ(complaint(chain), "backward_seconds[3] is negative");
  chain = toyChain();
  chain.activation_bytes[1] = std::numeric_limits<Bytes>::max();
  EXPECT_NE(complaint(chain).find("do not fit 63 bits"), std::string::npos);
  EXPECT_THROW(chainGraph(chain, CostModel::kPaper), std::invalid_argument);
}

// Section 3.2: "a makespan of 37.4 ms" and "107 MB", reached at B⁵ with a⁰, ā¹ … ā⁵, δ⁴ and δ⁵:
// 7.63 + 9.54 + 10.68 + 11.08 + 10.68 + 9.54 + 10.68 + 9.54 + 27.64 = 107.01. (Table 2 has ā⁴ as
// 10.66, less than a⁴ = 10.68, which it holds; we take the larger one.)
TEST(Chain, KeepsEverythingAsThePaperSays) {
  const Graph graph = chainGraph(toyChain(), CostModel::kPaper);
  checkGraph(graph);
  const Simulation all = simulate(graph, keepEverything(graph));
  EXPECT_EQ(all.duration_ns, 3738);
  EXPECT_EQ(all.peak_bytes, 10701);
  EXPECT_EQ(graph.ops[static_cast<std::size_t>(all.peak_op)].name, "B5");
}

// One stage of a = 10, ā = 30 on a⁰ = 100, then the loss. F∅ of stage 1 makes a¹ alone in the
// paper's model, ā¹ in the real one: 110 or 130 beside its workspace of 5.
TEST(Chain, SavesOrNotAsTheModelSays) {
  const Chain chain = {.activation_bytes = {100, 10},
                       .saved_bytes = {30, 0},
                       .forward_workspace_bytes = {5, 0},
                       .backward_workspace_bytes = {7, 0},
                       .forward_ns = {1, 1},
                       .backward_ns = {1, 1}};
  // Values: a⁰, a¹, the rest of ā¹ (20), ā² (0), δ¹ (10).
  const Schedule again = {{run(0), drop(2), run(1), run(2), drop(3), drop(1), run(0), run(3)}};
  for (CostModel model : {CostModel::kPaper, CostModel::kReal}) {
    const Graph graph = chainGraph(chain, model);
    ASSERT_EQ(validate(graph, again).value_or(""), "");
    const Simulation simulation = simulate(graph, again);
    EXPECT_EQ(simulation.live_bytes[0], model == CostModel::kPaper ? 115 : 135);
    // B¹: a⁰, ā¹, δ¹, δ⁰ and its workspace.
    EXPECT_EQ(simulation.peak_bytes, 100 + 30 + 10 + 100 + 7);
    EXPECT_EQ(simulation.recompute_ns, 1);
  }
}

}  // namespace
}  // namespace ebbtide::scheduler
