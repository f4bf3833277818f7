// BlockCurve: what a block may save for its backward, from all to next to nothing, and what the
// replays of the rest cost. Each way is a set of values to keep, judged by the simulator.
#pragma once

#include <functional>
#include <vector>

#include "planners/chain/block_partition.hpp"

namespace ebbtide::scheduler {

struct BlockSave {
  std::vector<ValueId> kept;  // of the block's graph, beside the output
  Bytes saved_bytes = 0;      // the output included
  Bytes forward_peak = 0, backward_peak = 0;
  Nanoseconds replay_ns = 0;
};

// Saving all that its events read comes first; then ways that save less by falling bytes, at most
// `most`. All that are better in bytes, time or peak than any other one, where few values can be
// dropped; else those on the convex hull of time over bytes (the optima of a price per byte, by
// minimum cuts) and their neighbours.
std::vector<BlockSave> blockCurve(const Block& block, std::size_t most,
                                  const std::function<bool()>& late);

}  // namespace ebbtide::scheduler
