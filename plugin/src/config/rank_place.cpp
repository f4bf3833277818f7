#include "config/rank_place.hpp"

#include <algorithm>
#include <cctype>
#include <cstdint>
#include <cstdlib>
#include <initializer_list>
#include <limits>
#include <string>

#include "base/variables.hpp"

namespace ebbtide::plugin {
namespace {

// Rank variables belong to the launcher: anything unreadable there means "not given".
std::optional<int> launcherVariable(std::initializer_list<const char*> names) {
  for (const char* name : names) {
    const std::string text = variable(name);
    if (!text.empty() &&
        std::all_of(text.begin(), text.end(), [](unsigned char c) { return std::isdigit(c); }) &&
        text.size() < 9) {
      return std::atoi(text.c_str());
    }
  }
  return std::nullopt;
}

// Of the nodes before this one the ranks are not known where no launcher says how many they have:
// only on the first node is the local rank the rank.
int rankOnNode(int local_rank, int local_world_size) {
  const std::int64_t node = launcherVariable({"NODE_RANK", "GROUP_RANK"}).value_or(0);
  const std::int64_t rank = node * local_world_size + local_rank;
  return rank <= std::numeric_limits<int>::max() ? static_cast<int>(rank) : local_rank;
}

}  // namespace

RankPlace rankPlaceFromEnvironment() {
  RankPlace place;
  const auto local_rank = launcherVariable(
      {"LOCAL_RANK", "SLURM_LOCALID", "OMPI_COMM_WORLD_LOCAL_RANK", "MPI_LOCALRANKID"});
  const auto local_world_size = launcherVariable(  // LOCAL_SIZE: of DeepSpeed's launcher
      {"LOCAL_WORLD_SIZE", "LOCAL_SIZE", "SLURM_NTASKS_PER_NODE", "OMPI_COMM_WORLD_LOCAL_SIZE",
       "MPI_LOCALNRANKS"});
  place.local_rank = local_rank.value_or(0);
  place.local_rank_told = local_rank.has_value();
  place.local_world_size = std::max(1, local_world_size.value_or(1));
  place.local_size_told = local_world_size.has_value();
  const auto rank = launcherVariable({"RANK"});
  const auto local = launcherVariable({"LOCAL_RANK"});
  place.rank_told = rank && local;  // pods and batch scripts that start the launcher have one alone
  if (rank) {
    place.rank = *rank;
  } else if (local) {
    place.rank = rankOnNode(*local, place.local_world_size);
  } else {
    place.rank = launcherVariable({"SLURM_PROCID", "OMPI_COMM_WORLD_RANK", "PMI_RANK"}).value_or(0);
  }
  place.world_size =
      launcherVariable({"WORLD_SIZE", "SLURM_NTASKS", "OMPI_COMM_WORLD_SIZE", "PMI_SIZE"})
          .value_or(1);
  if (place.rank_told && place.world_size == 1) place.local_size_told = true;
  return place;
}

bool takeGroupPlace(RankPlace& place, const GroupPlace& group) {
  if (place.rank_told && place.local_size_told) return true;
  const bool same = place.rank == group.rank && place.world_size == group.size;
  if (!place.rank_told) {
    place.rank = group.rank;
    place.world_size = group.size;
    if (!same) place.local_rank_told = place.local_size_told = false;  // of another process
  }
  if (group.size <= 1 && place.world_size <= 1) {
    place.local_rank = 0;
    place.local_world_size = 1;
    return true;
  }
  if (!place.local_rank_told) place.local_rank = group.rank;  // another than rank 0's, for now
  return same && place.local_size_told;
}

}  // namespace ebbtide::plugin
