// Blocks of a training step: the stages of its chains, each as a graph of its own, and which of
// them are alike. Deep networks repeat a few blocks many times, so each distinct one is solved
// once.
//
//   stage:   in ─► [f f f] ─► out          block:   f f f b b b, `in` and all else from outside
//                  [b b b]                          pinned, so that only its own bytes count
#pragma once

#include <cstdint>
#include <vector>

#include "ebbtide/scheduler/graph.hpp"
#include "planners/chain/chain_contraction.hpp"

namespace ebbtide::scheduler {

struct Block {
  Graph graph;
  std::vector<OpId> ops;        // of the whole graph, per op of the block's
  std::vector<ValueId> values;  // of the whole graph, per value of the block's
  ValueId output = kNone;       // of the block's graph
  std::size_t forward_ops = 0;
};

// Fixed bytes are counted beyond the least of the stage's ops.
Block blockOf(const Graph& graph, const ChainStage& stage);

// Equal for blocks whose ops read, make and write over the same values, with the same sizes, and
// last as long within 5 %: then what holds for one holds for the other, place by place.
std::vector<std::int64_t> fingerprint(const Block& block);

}  // namespace ebbtide::scheduler
