#include "ebbtide/scheduler/layer_taker.hpp"

#include <gtest/gtest.h>

#include "pipeline_jobs.hpp"

namespace ebbtide::scheduler {
namespace {

LayerTaker takerFor(const PipelineJob& job, std::int32_t rank) {
  const PipelineSimulation recomputed = simulate(job, uniformChoices(job, 1));
  return layerTaker(job, recomputed, rank, recomputed.ranks[rank].peak_bytes);
}

// 1F1B with all recomputed: a backward takes 110 bytes beside 20 of each other microbatch in
// flight. Rank 0 has two others, rank 1 one, rank 2 none: peaks of 150, 130 and 110 bytes.
TEST(LayerTaker, IsTheNeighbourWithTheMostToSpare) {
  PipelineJob job = equalStages("1f1b", 3, 3);
  job.budgets = {157, 20, 119};
  EXPECT_EQ(takerFor(job, 1), (LayerTaker{2, 9, false}));
  job.budgets[0] = 160;
  EXPECT_EQ(takerFor(job, 1), (LayerTaker{0, 10, false}));
}

TEST(LayerTaker, IsNobodyWhereNoNeighbourHasAny) {
  PipelineJob job = equalStages("1f1b", 3, 3);
  job.budgets = {20, 130, 1000};  // rank 2 is no neighbour of rank 0
  EXPECT_EQ(takerFor(job, 0), LayerTaker());
}

// Stages 0 and 2 are on rank 0, 1 and 3 on rank 1: each rank is on both sides of the other.
TEST(LayerTaker, IsNeverTheRankItself) {
  PipelineJob job = equalStages("interleaved", 2, 2, 2);
  const auto peaks = simulate(job, uniformChoices(job, 1)).ranks;
  job.budgets = {peaks[0].peak_bytes + 500, peaks[1].peak_bytes + 3};
  EXPECT_EQ(takerFor(job, 0), (LayerTaker{1, 3, true}));
}

// Rank 1 needs 130 bytes and may have 20: it lacks 110. Of two layers each is 65, of three 44.
TEST(LayerTaker, CouldTakeALayerThatItHasRoomFor) {
  PipelineJob job = equalStages("1f1b", 3, 3);
  job.budgets = {150 + 109, 20, 110};
  EXPECT_FALSE(takerFor(job, 1).could);
  job.budgets[0] = 150 + 110;
  EXPECT_TRUE(takerFor(job, 1).could);
  job.profiles[0].layers = 2;
  job.budgets[0] = 150 + 64;
  EXPECT_FALSE(takerFor(job, 1).could);
  job.budgets[0] = 150 + 65;
  EXPECT_TRUE(takerFor(job, 1).could);
  job.profiles[0].layers = 3;
  job.budgets[0] = 150 + 44;
  EXPECT_TRUE(takerFor(job, 1).could);
}

}  // namespace
}  // namespace ebbtide::scheduler
