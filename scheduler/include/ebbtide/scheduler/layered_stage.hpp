// A stage made of layers. Each layer may take a point of its own.
#pragma once

#include <vector>

#include "ebbtide/scheduler/pipeline_job.hpp"

namespace ebbtide::scheduler {

// Layers in the order of the forward pass, as profiles. Times, fixed bytes and what weights hold
// add up; the output is the last layer's. Points are the best sums of the layers' points: at most
// `most_points`, and always the first and the last one.
//
// Forward and, with replays on demand, backward: a layer runs beside what those before it hold.
// Where all replays run ahead each layer holds by then what it does with everything kept, and the
// one that takes the most besides has that, too. Throws std::invalid_argument without a layer,
// where a layer has no point, or where a sum is over 2^60.
StageProfile joinLayers(const std::string& name, const std::vector<StageProfile>& layers,
                        std::size_t most_points = 24);

}  // namespace ebbtide::scheduler
