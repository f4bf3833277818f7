// What a step leaves behind, beyond what it found: a history, a list of outputs, a second network.
#pragma once

#include <string>
#include <vector>

#include "ebbtide/scheduler/trace.hpp"

namespace ebbtide::scheduler {

struct KeptBlocks {
  // An op, a node of the autograd graph, or "the optimizer's step": whatever follows the last node.
  std::string by;
  Bytes bytes = 0;
  bool known = true;  // false: no op or node, but a part of the step
};

// Blocks that the step allocated and did not free, by what made them, the most bytes first. A block
// that takes the place of one of the same size, which was there before and was freed, is left out:
// gradients first, then what the update made, then what the forward pass did.
std::vector<KeptBlocks> keptBlocks(const Trace& trace);

}  // namespace ebbtide::scheduler
