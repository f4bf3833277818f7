#include "config/rank_place.hpp"

#include <algorithm>
#include <cctype>
#include <cstdint>
#include <cstdlib>
#include <initializer_list>
#include <limits>
#include <regex>
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

// "2(x3),1": two tasks on each of the first three nodes, one on the fourth.
std::optional<int> tasksOnNode(const std::string& counts, int node) {
  static const std::regex kAlike(R"((\d{1,8})(?:\(x(\d{1,8})\))?)");
  for (std::sregex_iterator alike(counts.begin(), counts.end(), kAlike), end; alike != end;
       ++alike) {
    node -= (*alike)[2].matched ? std::atoi((*alike)[2].str().c_str()) : 1;
    if (node < 0) return std::atoi((*alike)[1].str().c_str());
  }
  return std::nullopt;
}

// What one launcher's variables say.
struct Told {
  std::optional<int> rank, local_rank, world_size, local_world_size;
};

Told byTorchsVariables() {
  return {.rank = launcherVariable({"RANK"}),
          .local_rank = launcherVariable({"LOCAL_RANK"}),
          .world_size = launcherVariable({"WORLD_SIZE"}),
          .local_world_size = launcherVariable({"LOCAL_WORLD_SIZE", "LOCAL_SIZE"})};  // DeepSpeed's
}

Told byMpi() {
  return {.rank = launcherVariable({"OMPI_COMM_WORLD_RANK", "PMI_RANK"}),
          .local_rank = launcherVariable({"OMPI_COMM_WORLD_LOCAL_RANK", "MPI_LOCALRANKID"}),
          .world_size = launcherVariable({"OMPI_COMM_WORLD_SIZE", "PMI_SIZE"}),
          .local_world_size = launcherVariable({"OMPI_COMM_WORLD_LOCAL_SIZE", "MPI_LOCALNRANKS"})};
}

// SLURM_STEP_… are of the tasks that srun starts. A batch script lacks those, and has
// SLURM_PROCID=0 and SLURM_LOCALID=0 all the same. SLURM_NTASKS and SLURM_NTASKS_PER_NODE are what
// the job asked for: in a step of fewer tasks, too, and in the one shell that `salloc` starts
// (env_array_for_step() and setup_env() in Slurm's env.c).
Told bySlurm() {
  const auto tasks = launcherVariable({"SLURM_STEP_NUM_TASKS"});
  if (!tasks) return {};
  return {.rank = launcherVariable({"SLURM_PROCID"}),
          .local_rank = launcherVariable({"SLURM_LOCALID"}),
          .world_size = tasks,
          .local_world_size = tasksOnNode(variable("SLURM_STEP_TASKS_PER_NODE"),
                                          launcherVariable({"SLURM_NODEID"}).value_or(0))};
}

// What `inner` leaves open `outer` says, unless they contradict each other: then `outer` is of
// another process, a task that starts ranks of its own (a notebook's launcher; mpirun, whose
// daemons are tasks of a step). Ranks of a node are not compared: launchers count them differently.
// A world size alone names no rank: scripts export WORLD_SIZE=$SLURM_NNODES and compute the rest.
Told within(const Told& outer, const Told& inner) {
  const auto agree = [](std::optional<int> of_inner, std::optional<int> of_outer) {
    return !of_inner || of_inner == of_outer;
  };
  const auto first = [](std::optional<int> one, std::optional<int> other) {
    return one ? one : other;
  };
  const bool names_rank = inner.rank || inner.local_rank;
  if (names_rank && (!agree(inner.rank, outer.rank) || !agree(inner.local_rank, outer.local_rank) ||
                     !agree(inner.world_size, outer.world_size))) {
    return inner;
  }
  return {.rank = first(inner.rank, outer.rank),
          .local_rank = first(inner.local_rank, outer.local_rank),
          .world_size = first(outer.world_size, inner.world_size),
          .local_world_size = first(inner.local_world_size, outer.local_world_size)};
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
  const Told torch = byTorchsVariables();
  const Told told = within(within(bySlurm(), byMpi()), torch);
  RankPlace place;
  place.local_rank = told.local_rank.value_or(0);
  place.local_rank_told = told.local_rank.has_value();
  place.local_world_size = std::max(1, told.local_world_size.value_or(1));
  place.local_size_told = told.local_world_size.has_value();
  // Pods and batch scripts that start the launcher have one of the two alone.
  place.rank_told = torch.rank && torch.local_rank;
  if (told.rank) {
    place.rank = *told.rank;
  } else if (told.local_rank) {
    place.rank = rankOnNode(*told.local_rank, place.local_world_size);
  }
  place.world_size = told.world_size.value_or(1);
  if (place.rank_told && place.world_size == 1) place.local_size_told = true;
  return place;
}

bool takeGroupPlace(RankPlace& place, const GroupPlace& group) {
  if (place.isTold()) return true;
  const bool same = place.rank == group.rank && place.world_size == group.size;
  if (!place.rank_told) {
    place.rank = group.rank;
    place.world_size = group.size;
    if (!same) {  // of another process
      place.local_rank_told = place.local_size_told = false;
      place.local_world_size = 1;
    }
  }
  if (group.size <= 1 && place.world_size <= 1) {
    place.local_rank = 0;
    place.local_world_size = 1;
    return true;
  }
  if (!place.local_rank_told) place.local_rank = group.rank;  // another than rank 0's, for now
  return false;
}

}  // namespace ebbtide::plugin
