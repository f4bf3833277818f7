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

// A batch script has these too, and may start ranks by mp.spawn: the group has the last word.
TEST(RankPlace, OfSlurmIsTakenUntilAGroupSaysOtherwise) {
  const Variables variables{{"SLURM_PROCID", "3"},
                            {"SLURM_LOCALID", "1"},
                            {"SLURM_NTASKS", "4"},
                            {"SLURM_NTASKS_PER_NODE", "2"}};
  RankPlace place = placeUnder(variables);
  expectPlace(place, 3, 4, 1, 2);
  EXPECT_FALSE(place.isTold());
  EXPECT_TRUE(takeGroupPlace(place, {.rank = 3, .size = 4}));
  expectPlace(place, 3, 4, 1, 2);

  place = placeUnder(variables);
  EXPECT_FALSE(takeGroupPlace(place, {.rank = 0, .size = 2}));
  EXPECT_EQ(place.rank, 0);
  EXPECT_EQ(place.world_size, 2);
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
