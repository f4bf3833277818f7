// A stage made of layers, each of which may take a point of its own.
#pragma once

#include <vector>

#include "ebbtide/scheduler/pipeline_job.hpp"

namespace ebbtide::scheduler {

// Layers in the order of the forward pass, as profiles. Times, fixed bytes and what weights hold
// add up; the output is the last layer's. Points are the best sums of the layers' points, at most
// `most_points` of them, the first and the last one always.
//
// Forward: a layer runs beside what those before it hold. Backward: where replays run ahead of the
// gradient, all layers are replayed before the first one runs backward, so their bytes add up; else
// a layer runs beside what those before it hold. Throws std::invalid_argument without a layer,
// where a layer has no point, or where a sum is over 2^60.
StageProfile joinLayers(const std::string& name, const std::vector<StageProfile>& layers,
                        bool replays_ahead, std::size_t most_points = 24);

}  // namespace ebbtide::scheduler
