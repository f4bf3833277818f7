// Jobs for tests of the pipeline: small ones by hand, and random ones.
#pragma once

#include <random>
#include <string>
#include <vector>

#include "ebbtide/scheduler/action_orders.hpp"
#include "ebbtide/scheduler/pipeline_job.hpp"

namespace ebbtide::scheduler {

inline void linkStages(PipelineJob& job, std::int32_t stages, std::int32_t ranks) {
  for (std::int32_t i = 0; i < stages; ++i) {
    job.stages.push_back({0, i % ranks, i > 0 ? i - 1 : kNone, i + 1 < stages ? i + 1 : kNone});
  }
}

// Stages alike: forward 10 ns, backward 10 + 10 ns; a microbatch holds 100 bytes, or 20 and replays
// for 10 ns. No time between ranks, 1000 bytes of budget.
inline PipelineJob equalStages(const std::string& schedule, std::int32_t ranks,
                               std::int32_t microbatches, std::int32_t stages_per_rank = 1) {
  PipelineJob job;
  StageProfile profile;
  profile.name = "block";
  profile.forward_ns = profile.input_backward_ns = profile.weight_backward_ns = 10;
  profile.points = {{100, 100, 100, 0}, {20, 30, 110, 10}};
  job.profiles = {profile};
  linkStages(job, ranks * stages_per_rank, ranks);
  job.order = actionOrder(schedule, {ranks, stages_per_rank, microbatches});
  job.microbatches = microbatches;
  job.budgets.assign(ranks, 1000);
  return job;
}

inline StageProfile randomProfile(std::mt19937& random) {
  StageProfile profile;
  profile.name = "random";
  profile.forward_ns = 1 + random() % 20;
  profile.input_backward_ns = 1 + random() % 20;
  profile.weight_backward_ns = random() % 20;
  profile.tail_ns = random() % 5;
  profile.fixed_bytes = random() % 50;
  profile.output_bytes = random() % 20;
  profile.weight_held_bytes = random() % 30;
  Bytes held = 60 + random() % 60;
  Nanoseconds recompute = 0;
  for (std::size_t i = 0, points = 1 + random() % 3; i < points; ++i) {
    profile.points.push_back({held, held + static_cast<Bytes>(random() % 20),
                              held + static_cast<Bytes>(random() % 60), recompute});
    held -= 1 + random() % 25;
    recompute += 1 + random() % 12;
  }
  return profile;
}

// Of each known schedule; budgets between nearly nothing and nearly all.
inline PipelineJob randomJob(std::mt19937& random, std::int32_t most_ranks,
                             std::int32_t most_microbatches) {
  PipelineJob job;
  const std::string name = actionOrders()[random() % actionOrders().size()].name;
  const auto ranks = static_cast<std::int32_t>(1 + random() % most_ranks);
  job.microbatches = static_cast<std::int32_t>(1 + random() % most_microbatches);
  std::int32_t of_each = 1;
  if (name == "interleaved") {
    job.microbatches = std::max(ranks, job.microbatches / ranks * ranks);
    of_each = 2;
  }
  linkStages(job, ranks * of_each, ranks);
  for (std::size_t i = 0; i < job.stages.size(); ++i) {
    job.profiles.push_back(randomProfile(random));
    job.stages[i].profile = static_cast<std::int32_t>(i);
  }
  job.order = actionOrder(name, {ranks, of_each, job.microbatches});
  for (std::int32_t rank = 0; rank < ranks; ++rank) {
    job.budgets.push_back(100 + static_cast<Bytes>(random() % (120 * (ranks + 1) * of_each)));
  }
  job.latency_ns = random() % 4;
  job.bytes_per_second = random() % 3 == 0 ? 0 : 1e9 * (1 + random() % 10);
  job.replays_ahead = random() % 2 == 0;
  for (StageProfile& profile : job.profiles) {
    for (StagePoint& point : profile.points) {
      if (random() % 2 == 0) point.ahead_bytes = point.backward_bytes + random() % 60;
    }
  }
  return job;
}

// Gradients that come as the step goes on.
inline void growBesides(PipelineJob& job, std::mt19937& random) {
  job.besides_bytes.clear();
  for (const auto& order : job.order) {
    std::vector<Bytes>& besides = job.besides_bytes.emplace_back();
    for (Bytes bytes = 0; besides.size() < order.size(); bytes += random() % 10) {
      besides.push_back(bytes);
    }
  }
}

}  // namespace ebbtide::scheduler
