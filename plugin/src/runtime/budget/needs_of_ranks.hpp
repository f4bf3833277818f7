// NeedsOfRanks: the smallest budgets that the other ranks of this machine name for themselves. One
// budget for all ranks has to be the largest of them. Torch-free.
#pragma once

#include <cstdint>
#include <map>

#include "config/config.hpp"

namespace ebbtide::plugin {

using NeedsOfRanks = std::map<int, std::int64_t>;  // bytes, by rank

// Asks the ranks until all of them know, for half a second at most: a rank that is refused first is
// a moment ahead of the others. A rank that knows no smallest budget, or does not answer, is not in
// it. Empty if ranks have budgets of their own. The caller holds no lock that an answer needs:
// ranks that ask each other answer meanwhile.
NeedsOfRanks askNeedsOfRanks(const Config& config) noexcept;

}  // namespace ebbtide::plugin
