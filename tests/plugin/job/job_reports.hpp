// Reports of ranks for tests.
#pragma once

#include <random>

#include "job/rank_report.hpp"

namespace ebbtide::plugin {

// Of a rank in the middle of a pipeline. It has `stages` stages and runs each microbatch forward,
// then backward. Points by 10 ns more and 10 bytes less.
inline RankReport pipelineReport(std::int32_t rank, std::int32_t size, std::int32_t stages = 1,
                                 std::int32_t microbatches = 4, std::int32_t points = 3) {
  using Kind = scheduler::PipelineAction::Kind;
  RankReport report;
  report.versions = {JobVersions::kProtocol, "0.1.0", "2.11.0+cpu"};
  report.rank = rank;
  report.size = size;
  report.global_rank = rank + 8;
  report.host = "node1";
  report.budget_bytes = 1000;
  report.fixed_bytes = 100;
  report.own_peak_bytes = 900;
  report.tail_ns = 5;
  report.short_of_memory = true;
  for (std::int32_t stage = 0; stage < stages; ++stage) {
    auto& of = report.classes.emplace_back();
    for (std::int32_t i = 0; i < points; ++i) {
      const Bytes held = 10 * (points - i);
      of.points.push_back({held, held + 5, held + 7, 10 * i});
    }
    of.weight_held_bytes = 3;
    of.busy_ns = {20, 20, 0, 0};
    for (std::int32_t microbatch = 0; microbatch < microbatches; ++microbatch) {
      report.actions.push_back(
          {Kind::kForward,
           static_cast<std::int32_t>(report.chunks.size()),
           {{true, (rank + size - 1) % size, 64}, {false, (rank + 1) % size, 64}}});
      report.chunks.push_back({.chunk_class = stage,
                               .own_replay_ns = 10,
                               .stage = stage * size + rank,
                               .microbatch = microbatch});
    }
  }
  const std::size_t forwards = report.actions.size();
  for (std::size_t i = 0; i < forwards; ++i) {
    RankReport::Action backward = report.actions[i];
    backward.kind = Kind::kBackward;
    std::swap(backward.messages[0].peer, backward.messages[1].peer);
    report.actions.push_back(backward);
  }
  return report;
}

// Of any form, within what a report may hold.
inline RankReport randomReport(std::uint64_t seed) {
  std::mt19937_64 random(seed);
  const auto pick = [&random](std::int64_t least, std::int64_t most) {
    return least +
           static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(most - least + 1));
  };
  const auto amount = [&] { return pick(0, std::int64_t{1} << pick(0, 50)); };
  RankReport report;
  report.versions = {JobVersions::kProtocol, "0." + std::to_string(pick(0, 9)), "2.11.0"};
  report.size = static_cast<std::int32_t>(pick(1, 40));
  report.rank = static_cast<std::int32_t>(pick(0, report.size - 1));
  report.global_rank = static_cast<std::int32_t>(pick(0, 2000));
  report.host = pick(0, 1) == 0 ? "" : "gpu-\"7\"\n\\é";
  report.host_processors = static_cast<std::int32_t>(pick(0, 8));
  report.budget_bytes = amount();
  report.asks_stages = pick(0, 1) == 1;
  report.fixed_bytes = amount();
  report.own_peak_bytes = amount();
  report.tail_ns = amount();
  report.short_of_memory = pick(0, 1) == 1;
  for (std::int64_t i = pick(0, 3); i > 0; --i) {
    auto& of = report.classes.emplace_back();
    of.weight_held_bytes = amount();
    for (auto& ns : of.busy_ns) ns = amount();
    std::int64_t held = std::int64_t{1} << 40, ns = 0;
    for (std::int64_t left = pick(1, 5); left > 0; --left) {
      of.points.push_back({held, held + amount() / 2, held + amount() / 2, ns});
      held -= pick(1, 1 << 30);
      ns += pick(1, 1 << 30);
    }
  }
  if (report.classes.empty()) return report;
  for (std::int64_t i = pick(0, 9); i > 0; --i) {
    report.chunks.push_back(
        {.chunk_class = static_cast<std::int32_t>(
             pick(0, static_cast<std::int64_t>(report.classes.size()) - 1)),
         .previous = static_cast<std::int32_t>(
             pick(scheduler::kNone, static_cast<std::int64_t>(report.chunks.size()) - 1)),
         .own_replay_ns = amount() / 16,  // of nine at most
         .stage = static_cast<std::int32_t>(pick(scheduler::kNone, 100)),
         .microbatch = static_cast<std::int32_t>(pick(scheduler::kNone, 100))});
  }
  if (report.chunks.empty()) return report;
  for (std::int64_t i = pick(0, 20); i > 0; --i) {
    auto& action = report.actions.emplace_back();
    action.kind = static_cast<scheduler::PipelineAction::Kind>(pick(0, 3));
    action.chunk =
        static_cast<std::int32_t>(pick(0, static_cast<std::int64_t>(report.chunks.size()) - 1));
    for (std::int64_t left = pick(0, 3); left > 0; --left) {
      action.messages.push_back({pick(0, 1) == 1,
                                 static_cast<std::int32_t>(pick(scheduler::kNone, report.size - 1)),
                                 pick(0, 4) * 1024});
    }
  }
  return report;
}

}  // namespace ebbtide::plugin
