// Neighbours: an undirected graph of numbered nodes.
#pragma once

#include <cstdint>
#include <vector>

namespace ebbtide::scheduler {

// Per node its neighbours, increasing, each edge at both ends.
using Neighbours = std::vector<std::vector<std::int32_t>>;

}  // namespace ebbtide::scheduler
