#include "config/rank_place.hpp"

#include <gtest/gtest.h>

#include <cstdlib>
#include <string>
#include <utility>
#include <vector>

namespace ebbtide::plugin {
namespace {

using Variables = std::vector<std::pair<std::string, std::string>>;

// What a process sees whose launcher sets these.
RankPlace placeUnder(const Variables& variables) {
  for (const auto& [name, value] : variables) ::setenv(name.c_str(), value.c_str(), 1);
  const RankPlace place = rankPlaceFromEnvironment();
  for (const auto& [name, value] : variables) ::unsetenv(name.c_str());
  return place;
}

void expectPlace(const RankPlace& place, int rank, int world_size, int local_rank,
                 int local_world_size) {
  EXPECT_EQ(place.rank, rank);
  EXPECT_EQ(place.world_size, world_size);
  EXPECT_EQ(place.local_rank, local_rank);
  EXPECT_EQ(place.local_world_size, local_world_size);
}

// --- What launchers set: the rows of docs/launchers.md
// --------------------------------------------

TEST(RankPlace, OfTorchrunAccelerateAndRayIsToldWhole) {
  const RankPlace place = placeUnder(
      {{"RANK", "5"}, {"LOCAL_RANK", "1"}, {"WORLD_SIZE", "8"}, {"LOCAL_WORLD_SIZE", "4"}});
  expectPlace(place, 5, 8, 1, 4);
  EXPECT_TRUE(place.isTold());
}

TEST(RankPlace, OfDeepSpeedIsToldWhole) {
  const RankPlace place =
      placeUnder({{"RANK", "5"}, {"LOCAL_RANK", "1"}, {"WORLD_SIZE", "8"}, {"LOCAL_SIZE", "4"}});
  expectPlace(place, 5, 8, 1, 4);
  EXPECT_TRUE(place.isTold());
}

// Which other ranks are on the machine nothing says.
TEST(RankPlace, OfLightningLacksTheMachinesRanks) {
  const RankPlace place =
      placeUnder({{"NODE_RANK", "0"}, {"LOCAL_RANK", "1"}, {"WORLD_SIZE", "2"}});
  expectPlace(place, 1, 2, 1, 1);
  EXPECT_FALSE(place.isTold());
}

TEST(RankPlace, OnALaterNodeCountsThoseBefore) {
  const RankPlace place = placeUnder(
      {{"NODE_RANK", "2"}, {"LOCAL_RANK", "1"}, {"WORLD_SIZE", "12"}, {"LOCAL_WORLD_SIZE", "4"}});
  expectPlace(place, 9, 12, 1, 4);  // 2 * 4 + 1
}

TEST(RankPlace, OfNotebookLauncherLacksTheMachinesRanks) {
  const RankPlace place = placeUnder({{"RANK", "1"}, {"LOCAL_RANK", "1"}, {"WORLD_SIZE", "2"}});
  expectPlace(place, 1, 2, 1, 1);
  EXPECT_TRUE(place.rank_told);
  EXPECT_FALSE(place.isTold());
}

// The job asked for more tasks on a node than this step has.
TEST(RankPlace, OfSrunIsThatOfItsStep) {
  RankPlace place = placeUnder({{"SLURM_PROCID", "3"},
                                {"SLURM_LOCALID", "1"},
                                {"SLURM_NODEID", "1"},
                                {"SLURM_STEP_NUM_TASKS", "4"},
                                {"SLURM_STEP_TASKS_PER_NODE", "2(x2)"},
                                {"SLURM_NTASKS", "4"},
                                {"SLURM_NTASKS_PER_NODE", "8"}});
  expectPlace(place, 3, 4, 1, 2);
  EXPECT_TRUE(place.local_size_told);
  EXPECT_FALSE(place.isTold());
  EXPECT_FALSE(takeGroupPlace(place, {.rank = 3, .size = 4}));  // others may have inherited it
  expectPlace(place, 3, 4, 1, 2);
  EXPECT_TRUE(place.local_size_told);
}

TEST(RankPlace, OfSrunIsCountedNodeByNode) {
  const auto onNode = [](const std::string& node, const std::string& counts) {
    return placeUnder({{"SLURM_PROCID", "0"},
                       {"SLURM_NODEID", node},
                       {"SLURM_STEP_NUM_TASKS", "7"},
                       {"SLURM_STEP_TASKS_PER_NODE", counts}});
  };
  EXPECT_EQ(onNode("2", "2(x3),1").local_world_size, 2);
  EXPECT_EQ(onNode("3", "2(x3),1").local_world_size, 1);
  EXPECT_EQ(onNode("0", "7").local_world_size, 7);
  EXPECT_FALSE(onNode("4", "2(x3),1").local_size_told);  // of no node that it has
  EXPECT_FALSE(onNode("0", "").local_size_told);
}

// A batch script is one process, whatever it asked for. Ranks that it starts inherit its variables.
TEST(RankPlace, OfABatchScriptOfSlurmIsNotTold) {
  const Variables variables{{"SLURM_PROCID", "0"},
                            {"SLURM_LOCALID", "0"},
                            {"SLURM_NODEID", "0"},
                            {"SLURM_NTASKS", "4"},
                            {"SLURM_NTASKS_PER_NODE", "4"}};
  RankPlace place = placeUnder(variables);
  expectPlace(place, 0, 1, 0, 1);
  EXPECT_FALSE(place.local_size_told);
  EXPECT_FALSE(takeGroupPlace(place, {.rank = 0, .size = 4}));
  EXPECT_FALSE(place.local_size_told);
}

// The shell that salloc starts is a step of one task; the variables of the job stay as they were.
TEST(RankPlace, OfAShellOfSallocIsOneProcess) {
  const RankPlace place = placeUnder({{"SLURM_PROCID", "0"},
                                      {"SLURM_LOCALID", "0"},
                                      {"SLURM_NODEID", "0"},
                                      {"SLURM_STEP_ID", "4294967290"},
                                      {"SLURM_STEP_NUM_TASKS", "1"},
                                      {"SLURM_STEP_TASKS_PER_NODE", "1"},
                                      {"SLURM_NTASKS", "4"},
                                      {"SLURM_NTASKS_PER_NODE", "4"}});
  expectPlace(place, 0, 1, 0, 1);
}

// `export RANK=$SLURM_PROCID` and so on, of scripts that have no torchrun.
TEST(RankPlace, OfSrunMayBePassedOnToTorch) {
  const RankPlace place = placeUnder({{"RANK", "5"},
                                      {"LOCAL_RANK", "1"},
                                      {"WORLD_SIZE", "8"},
                                      {"SLURM_PROCID", "5"},
                                      {"SLURM_LOCALID", "1"},
                                      {"SLURM_NODEID", "1"},
                                      {"SLURM_STEP_NUM_TASKS", "8"},
                                      {"SLURM_STEP_TASKS_PER_NODE", "4(x2)"}});
  expectPlace(place, 5, 8, 1, 4);
  EXPECT_TRUE(place.isTold());
}

// `export WORLD_SIZE=$SLURM_NNODES` alone, of scripts that compute the rest. Else each task would
// be rank 0 until a group is found.
TEST(RankPlace, OfSrunHoldsBesideAWorldSizeAlone) {
  expectPlace(placeUnder({{"WORLD_SIZE", "2"},
                          {"SLURM_PROCID", "5"},
                          {"SLURM_LOCALID", "1"},
                          {"SLURM_NODEID", "1"},
                          {"SLURM_STEP_NUM_TASKS", "8"},
                          {"SLURM_STEP_TASKS_PER_NODE", "4(x2)"}}),
              5, 8, 1, 4);
  expectPlace(placeUnder({{"WORLD_SIZE", "2"},
                          {"OMPI_COMM_WORLD_RANK", "6"},
                          {"OMPI_COMM_WORLD_LOCAL_RANK", "2"},
                          {"OMPI_COMM_WORLD_SIZE", "8"},
                          {"OMPI_COMM_WORLD_LOCAL_SIZE", "4"}}),
              6, 8, 2, 4);
  EXPECT_EQ(placeUnder({{"WORLD_SIZE", "2"}}).world_size, 2);  // nobody else says one
}

// A notebook that is one task of a step: its two ranks share the machine, and the task has one.
TEST(RankPlace, OfALauncherWithinATaskLacksTheMachinesRanks) {
  const RankPlace place = placeUnder({{"RANK", "0"},
                                      {"LOCAL_RANK", "0"},
                                      {"WORLD_SIZE", "2"},
                                      {"SLURM_PROCID", "0"},
                                      {"SLURM_LOCALID", "0"},
                                      {"SLURM_STEP_NUM_TASKS", "1"},
                                      {"SLURM_STEP_TASKS_PER_NODE", "1"}});
  expectPlace(place, 0, 2, 0, 1);
  EXPECT_FALSE(place.isTold());
}

// Over several nodes mpirun's daemons are tasks of a step: the second one's ranks have its task's
// variables.
TEST(RankPlace, OfMpirunWithinAJobOfSlurm) {
  expectPlace(placeUnder({{"OMPI_COMM_WORLD_RANK", "6"},
                          {"OMPI_COMM_WORLD_LOCAL_RANK", "2"},
                          {"OMPI_COMM_WORLD_SIZE", "8"},
                          {"OMPI_COMM_WORLD_LOCAL_SIZE", "4"},
                          {"SLURM_PROCID", "1"},
                          {"SLURM_LOCALID", "0"},
                          {"SLURM_NODEID", "1"},
                          {"SLURM_STEP_NUM_TASKS", "2"},
                          {"SLURM_STEP_TASKS_PER_NODE", "1(x2)"}}),
              6, 8, 2, 4);
}

// `srun --mpi=pmi2` sets both: what is on the machine Slurm alone says.
TEST(RankPlace, OfSrunWithPmi) {
  expectPlace(placeUnder({{"PMI_RANK", "3"},
                          {"PMI_SIZE", "4"},
                          {"SLURM_PROCID", "3"},
                          {"SLURM_LOCALID", "1"},
                          {"SLURM_NODEID", "1"},
                          {"SLURM_STEP_NUM_TASKS", "4"},
                          {"SLURM_STEP_TASKS_PER_NODE", "2(x2)"}}),
              3, 4, 1, 2);
}

TEST(RankPlace, OfOpenMpi) {
  expectPlace(placeUnder({{"OMPI_COMM_WORLD_RANK", "6"},
                          {"OMPI_COMM_WORLD_LOCAL_RANK", "2"},
                          {"OMPI_COMM_WORLD_SIZE", "8"},
                          {"OMPI_COMM_WORLD_LOCAL_SIZE", "4"}}),
              6, 8, 2, 4);
}

TEST(RankPlace, OfMpich) {
  expectPlace(placeUnder({{"PMI_RANK", "6"},
                          {"MPI_LOCALRANKID", "2"},
                          {"PMI_SIZE", "8"},
                          {"MPI_LOCALNRANKS", "4"}}),
              6, 8, 2, 4);
}

TEST(RankPlace, OfAPlainProcessIsNotTold) {
  const RankPlace place = placeUnder({});
  expectPlace(place, 0, 1, 0, 1);
  EXPECT_FALSE(place.isTold());
}

// --- What a group says
// ------------------------------------------------------------------------------

// Rank 0 of a group has the place that all of them have inherited. All ask, or none would answer.
TEST(RankPlace, OfAGroupWhoseRanksInheritedOneIsAskedByAll) {
  for (int rank = 0; rank < 2; ++rank) {
    RankPlace place = placeUnder({{"OMPI_COMM_WORLD_RANK", "0"},
                                  {"OMPI_COMM_WORLD_LOCAL_RANK", "0"},
                                  {"OMPI_COMM_WORLD_SIZE", "2"},
                                  {"OMPI_COMM_WORLD_LOCAL_SIZE", "2"}});
    EXPECT_FALSE(takeGroupPlace(place, {.rank = rank, .size = 2}));
    expectPlace(place, rank, 2, rank, rank == 0 ? 2 : 1);
    EXPECT_EQ(place.local_size_told, rank == 0);
  }
}

// Kubeflow sets RANK in its pods, and the program there may start ranks of its own.
TEST(RankPlace, OfARankWithoutALocalRankIsTheGroups) {
  RankPlace place = placeUnder({{"RANK", "0"}, {"WORLD_SIZE", "1"}});
  EXPECT_FALSE(takeGroupPlace(place, {.rank = 1, .size = 2}));
  EXPECT_EQ(place.rank, 1);
  EXPECT_EQ(place.world_size, 2);
  EXPECT_EQ(place.local_rank, 1);  // another than rank 0's until they have told each other
}

TEST(RankPlace, OfALauncherStaysWhateverTheGroup) {
  RankPlace place = placeUnder(
      {{"RANK", "5"}, {"LOCAL_RANK", "1"}, {"WORLD_SIZE", "8"}, {"LOCAL_WORLD_SIZE", "4"}});
  EXPECT_TRUE(takeGroupPlace(place, {.rank = 0, .size = 2}));
  expectPlace(place, 5, 8, 1, 4);
}

TEST(RankPlace, OfAGroupOfOneIsKnown) {
  RankPlace place = placeUnder({});
  EXPECT_TRUE(takeGroupPlace(place, {.rank = 0, .size = 1}));
  expectPlace(place, 0, 1, 0, 1);
}

TEST(RankPlace, OfLightningKeepsItsLocalRank) {
  RankPlace place = placeUnder({{"NODE_RANK", "0"}, {"LOCAL_RANK", "1"}, {"WORLD_SIZE", "2"}});
  EXPECT_FALSE(takeGroupPlace(place, {.rank = 1, .size = 2}));
  EXPECT_TRUE(place.local_rank_told);
  EXPECT_EQ(place.local_rank, 1);
}

}  // namespace
}  // namespace ebbtide::plugin
