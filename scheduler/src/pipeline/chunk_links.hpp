// Which forward's output each forward of a job reads.
#pragma once

#include <vector>

#include "ebbtide/scheduler/rank_actions.hpp"

namespace ebbtide::scheduler {

struct ChunkId {
  std::int32_t rank = kNone, chunk = kNone;
  bool isNone() const { return rank == kNone; }
};

using ChunkLinks = std::vector<std::vector<ChunkId>>;  // of each rank's chunks: the one before

// "rank 2, action 5 (F of forward 3)", with the names that scopes gave where they did.
std::string nameOf(const std::vector<RankActions>& ranks, std::int32_t rank, std::size_t action);

// Do all scopes name stage and microbatch?
bool areNamed(const std::vector<RankActions>& ranks);

// By messages, or where areNamed() by names. Messages are matched either way. Throws
// std::invalid_argument.
ChunkLinks linkChunks(const std::vector<RankActions>& ranks);

}  // namespace ebbtide::scheduler
