// RankPlace: which rank of its job a process is, and how many ranks share its machine, as far as
// its launcher's variables say. What they leave open the job's default process group tells later.
// Torch-free.
#pragma once

#include <optional>

namespace ebbtide::plugin {

struct RankPlace {
  int rank = 0;
  int local_rank = 0;
  int world_size = 1;
  int local_world_size = 1;  // ranks that share this machine's memory
  // RANK and LOCAL_RANK are set: no group is asked for the rank.
  bool rank_told = false;
  bool local_rank_told = false;
  bool local_size_told = false;

  bool isTold() const { return rank_told && local_size_told; }
  // Whoever told it.
  bool isAt(const RankPlace& other) const {
    return rank == other.rank && local_rank == other.local_rank && world_size == other.world_size &&
           local_world_size == other.local_world_size;
  }
};

// torchrun's variables (accelerate, DeepSpeed, Ray Train set the same ones), then Open MPI's, those
// of MPICH and what comes from it, and those that Slurm's srun sets for its tasks. Without RANK:
// from NODE_RANK and LOCAL_RANK, which Lightning sets.
RankPlace rankPlaceFromEnvironment();

// What the default process group knows without asking anybody.
struct GroupPlace {
  int rank = 0, size = 1;
};

// Are the group's ranks not to be asked? `place` is set right as far as it needs no other rank's
// word: what is left open then are the ranks on this machine. All ranks of a group ask, or
// none: several processes may inherit the variables of one, and that one cannot know.
bool takeGroupPlace(RankPlace& place, const GroupPlace& group);

}  // namespace ebbtide::plugin
