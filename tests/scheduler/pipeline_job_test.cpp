#include "ebbtide/scheduler/pipeline_job.hpp"

#include <gtest/gtest.h>

#include <functional>
#include <stdexcept>

#include "ebbtide/scheduler/pipeline_simulator.hpp"
#include "pipeline_jobs.hpp"

namespace ebbtide::scheduler {
namespace {

std::string refusal(const std::function<void(PipelineJob&)>& spoil) {
  PipelineJob job = equalStages("1f1b", 2, 2);
  checkJob(job);
  spoil(job);
  try {
    checkJob(job);
  } catch (const std::invalid_argument& error) {
    return error.what();
  }
  return "";
}

TEST(PipelineJob, WhatIsWrongIsNamed) {
  EXPECT_EQ(refusal([](PipelineJob& job) { job.profiles[0].points.clear(); }),
            "profile 'block': no point");
  EXPECT_EQ(refusal([](PipelineJob& job) { job.profiles[0].points[1].recompute_ns = 0; }),
            "profile 'block': point 1: recomputes no more or holds no less than the one before");
  EXPECT_EQ(refusal([](PipelineJob& job) { job.profiles[0].points[0].backward_bytes = 99; }),
            "profile 'block': point 0: less while it runs than what it holds");
  EXPECT_EQ(refusal([](PipelineJob& job) { job.profiles[0].forward_ns = -1; }),
            "profile 'block': its forward time is negative");
  EXPECT_EQ(refusal([](PipelineJob& job) { job.budgets.pop_back(); }), "1 budgets for 2 ranks");
  EXPECT_EQ(refusal([](PipelineJob& job) { job.stages[1].rank = 2; }), "stage 1: no rank 2");
  EXPECT_EQ(refusal([](PipelineJob& job) { job.stages[1].previous = kNone; }),
            "stage 0: its neighbour names another stage");
  EXPECT_EQ(refusal([](PipelineJob& job) {
              job.stages[0].previous = 1;
              job.stages[1].next = 0;
            }),
            "stages follow each other in a circle");
  EXPECT_EQ(refusal([](PipelineJob& job) { job.order[0].pop_back(); }),
            "stage 0, microbatch 1: an action is missing");
  EXPECT_EQ(refusal([](PipelineJob& job) { job.order[0].push_back(job.order[0].back()); }),
            "rank 0: 0B1: for the second time");
  EXPECT_EQ(refusal([](PipelineJob& job) { std::swap(job.order[1][0], job.order[1][1]); }),
            "rank 1: 1B0: out of order");
  EXPECT_EQ(refusal([](PipelineJob& job) { job.order[1].resize(2); }),
            "stage 1, microbatch 1: only one of the stages 0 and 1 runs it");
  EXPECT_EQ(refusal([](PipelineJob& job) { job.profiles[0].fixed_bytes = Bytes{1} << 60; }),
            "the job's bytes may come to over 2^60");
}

TEST(PipelineJob, RanksThatWaitForEachOtherAreNamed) {
  PipelineJob job = equalStages("1f1b", 2, 1);
  // Rank 0 has two stages around rank 1's, and wants the gradient before it sends the output.
  job.stages = {{0, 0, kNone, 1}, {0, 1, 0, 2}, {0, 0, 1, kNone}};
  job.order = {actionsFromText("0F0 2F0 2B0 0B0"), actionsFromText("1F0 1B0")};
  checkJob(job);
  EXPECT_EQ(simulate(job, uniformChoices(job, 0)).makespan_ns, 90);  // six actions, one by one
  job.order[0] = actionsFromText("2F0 0F0 2B0 0B0");
  checkJob(job);
  EXPECT_THROW(simulate(job, uniformChoices(job, 0)), std::invalid_argument);
}

TEST(PipelineJob, ActionsAreWrittenAsTheyAreRead) {
  const std::string text = "0F0, 12I3\n12W3\t7B1048575";
  std::string again;
  for (const PipelineAction& action : actionsFromText(text)) again += toText(action) + " ";
  EXPECT_EQ(again, "0F0 12I3 12W3 7B1048575 ");
  EXPECT_TRUE(actionsFromText(" ,\n").empty());
  for (const char* bad :
       {"F0", "0F", "0X0", "0F0x", "0f0", "99999999999F0", "0F99999999999", "0"}) {
    EXPECT_THROW(actionsFromText(bad), std::invalid_argument) << bad;
  }
}

TEST(ActionOrders, OfEachScheduleAreLegal) {
  for (const ActionOrderInfo& info : actionOrders()) {
    for (std::int32_t ranks = 1; ranks <= 5; ++ranks) {
      for (std::int32_t microbatches = 1; microbatches <= 12; ++microbatches) {
        const bool interleaved = info.name == "interleaved";
        if (interleaved && microbatches % ranks != 0) {
          EXPECT_THROW(actionOrder(info.name, {ranks, 2, microbatches}), std::invalid_argument);
          continue;
        }
        const PipelineJob job = equalStages(info.name, ranks, microbatches, interleaved ? 3 : 1);
        checkJob(job);
        simulate(job, uniformChoices(job, 0));  // throws if ranks wait in a circle
      }
    }
  }
}

TEST(ActionOrders, AreThoseOfThePapers) {
  const auto text = [](const std::string& name, PipelineShape shape, std::size_t rank) {
    const ActionOrder order = actionOrder(name, shape);
    std::string words;
    for (const PipelineAction& action : order[rank]) words += toText(action) + " ";
    return words;
  };
  EXPECT_EQ(text("gpipe", {2, 1, 2}, 1), "1F0 1F1 1B0 1B1 ");
  EXPECT_EQ(text("1f1b", {3, 1, 4}, 1), "1F0 1F1 1B0 1F2 1B1 1F3 1B2 1B3 ");
  EXPECT_EQ(text("1f1b", {3, 1, 2}, 0), "0F0 0F1 0B0 0B1 ");
  // Rank 1 delays its weight gradients by one input gradient.
  EXPECT_EQ(text("zb-h1", {2, 1, 3}, 1), "1F0 1I0 1F1 1I1 1W0 1F2 1I2 1W1 1W2 ");
  EXPECT_EQ(text("zb-h1", {2, 1, 3}, 0), "0F0 0F1 0I0 0W0 0F2 0I1 0W1 0I2 0W2 ");
  // (2 - 1 - 1) * 2 + (2 - 1) * 2 + 1 = 3 forwards ahead: both microbatches through stage 1, then
  // the first one through stage 3.
  EXPECT_EQ(text("interleaved", {2, 2, 2}, 1), "1F0 1F1 3F0 3B0 3F1 3B1 1B0 1B1 ");
  EXPECT_THROW(actionOrder("1f1b", {2, 2, 4}), std::invalid_argument);
  EXPECT_THROW(actionOrder("2f2b", {2, 1, 4}), std::invalid_argument);
  EXPECT_THROW(actionOrder("gpipe", {1 << 20, 1, 1 << 20}), std::invalid_argument);
}

}  // namespace
}  // namespace ebbtide::scheduler
