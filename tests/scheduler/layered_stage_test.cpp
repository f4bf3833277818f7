#include "ebbtide/scheduler/layered_stage.hpp"

#include <gtest/gtest.h>

#include <random>
#include <stdexcept>

#include "pipeline_jobs.hpp"

namespace ebbtide::scheduler {
namespace {

StageProfile layer() {
  StageProfile layer;
  layer.name = "layer";
  layer.forward_ns = 10;
  layer.input_backward_ns = 12;
  layer.weight_backward_ns = 8;
  layer.tail_ns = 1;
  layer.fixed_bytes = 1000;
  layer.output_bytes = 5;
  layer.weight_held_bytes = 7;
  layer.points = {{100, 120, 130, 0}, {20, 50, 140, 10}};
  return layer;
}

// Two layers: both kept, one of them, none.
TEST(LayeredStage, AddsUpItsLayers) {
  const StageProfile stage = joinLayers("two", {layer(), layer()});
  EXPECT_EQ(stage.forward_ns, 20);
  EXPECT_EQ(stage.input_backward_ns, 24);
  EXPECT_EQ(stage.weight_backward_ns, 16);
  EXPECT_EQ(stage.fixed_bytes, 2000);
  EXPECT_EQ(stage.output_bytes, 5);  // the last one's
  EXPECT_EQ(stage.weight_held_bytes, 14);
  ASSERT_EQ(stage.points.size(), 3U);
  EXPECT_EQ(stage.layers, 2);
  // Forward: 100 held beside the second one's 120. Backward: the same beside 130.
  EXPECT_EQ(stage.points[0], (StagePoint{200, 220, 230, 0, 230}));
  // The first one replays: beside its 20 the second one's 120 and 130. Ahead the first one holds
  // 100 again, and took 140 for that beside the 100 of the second one.
  EXPECT_EQ(stage.points[1], (StagePoint{120, 140, 150, 10, 240}));
  // Both: on demand the second one's 140 beside the 20 that the first one holds; ahead 100 + 140.
  EXPECT_EQ(stage.points[2], (StagePoint{40, 70, 160, 20, 240}));
}

// Each of 24 layers holds 544, or 32 and runs again within 640. 23 * 32 + 640 on demand, with all
// replayed 23 * 544 + 640.
TEST(LayeredStage, ReplaysManyLayersOneAfterTheOtherOnDemand) {
  StageProfile large = layer();
  large.points = {{544, 576, 608, 0}, {32, 576, 640, 5}};
  const StageProfile stage = joinLayers("many", std::vector<StageProfile>(24, large));
  EXPECT_EQ(stage.points.back(), (StagePoint{768, 1312, 1376, 120, 13152}));
}

// 2^60 at most, as of a checked job; four times 2^62 is 0 in 64 bits.
TEST(LayeredStage, RefusesSumsThatNoJobMayHave) {
  constexpr std::int64_t kMost = std::int64_t{1} << 60;
  const auto refuses = [](const StageProfile& first, const StageProfile& then, int times) {
    std::vector<StageProfile> layers(times, then);
    layers.insert(layers.begin(), first);
    EXPECT_THROW(joinLayers("wide", layers), std::invalid_argument);
  };
  for (const auto number : {&StageProfile::forward_ns, &StageProfile::input_backward_ns,
                            &StageProfile::weight_backward_ns, &StageProfile::tail_ns,
                            &StageProfile::fixed_bytes, &StageProfile::weight_held_bytes}) {
    StageProfile large = layer(), half = layer(), one = layer();
    large.*number = kMost * 4;
    refuses(large, large, 3);
    half.*number = kMost / 2;
    one.*number = 1;
    EXPECT_EQ(joinLayers("most", {half, half}).*number, kMost);
    refuses(half, half, 2);
    refuses(one, half, 2);
    one.*number = -1;
    refuses(one, half, 1);
  }
  for (const auto number : {&StagePoint::held_bytes, &StagePoint::forward_bytes,
                            &StagePoint::backward_bytes, &StagePoint::recompute_ns}) {
    StageProfile large = layer();
    large.points[0].*number = kMost;
    refuses(layer(), large, 1);
  }
}

TEST(LayeredStage, HasPointsThatAJobAccepts) {
  std::mt19937 random(1);
  for (int i = 0; i < 200; ++i) {
    PipelineJob job = equalStages("1f1b", 1, 1);
    std::vector<StageProfile> layers;
    for (std::size_t n = 1 + random() % 8; n > 0; --n) layers.push_back(randomProfile(random));
    job.profiles = {joinLayers("random", layers, 6)};
    checkJob(job);
    EXPECT_LE(job.profiles[0].points.size(), 6U);
    Bytes least = 0, most = 0;
    for (const StageProfile& of_stage : layers) {
      most += of_stage.points.front().held_bytes;
      least += of_stage.points.back().held_bytes;
    }
    EXPECT_EQ(job.profiles[0].points.front().held_bytes, most);
    EXPECT_EQ(job.profiles[0].points.back().held_bytes, least);
  }
}

TEST(LayeredStage, NeedsLayersWithPoints) {
  EXPECT_THROW(joinLayers("none", {}), std::invalid_argument);
  StageProfile empty = layer();
  empty.points.clear();
  EXPECT_THROW(joinLayers("one", {layer(), empty}), std::invalid_argument);
}

}  // namespace
}  // namespace ebbtide::scheduler
