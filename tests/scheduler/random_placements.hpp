// Random buffers, the same for a seed.
#pragma once

#include <algorithm>
#include <array>
#include <random>

#include "ebbtide/scheduler/placement.hpp"

namespace ebbtide::scheduler {

inline PlacementProblem randomPlacement(std::uint64_t seed, std::size_t buffers,
                                        std::int64_t times = 20, Bytes most_bytes = 12) {
  std::mt19937_64 random(seed);
  const auto below = [&](std::int64_t end) {
    return static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(end));
  };
  PlacementProblem problem;
  for (std::size_t i = 0; i < buffers; ++i) {
    const std::int64_t lower = below(times) - times / 2;
    problem.buffers.push_back({lower, lower + 1 + below(times / 2), below(most_bytes + 1)});
  }
  return problem;
}

// A few random buffers, and at each time one that fills up what is missing to LOAD: then
// now and then no placement is as low as LOAD.
inline PlacementProblem filledPlacement(std::uint64_t seed, std::size_t buffers) {
  constexpr std::int64_t kTimes = 8;
  std::mt19937_64 random(seed);
  PlacementProblem problem;
  std::array<Bytes, kTimes> live = {};
  for (std::size_t i = 0; i < buffers; ++i) {
    const auto lower = static_cast<std::int64_t>(random() % (kTimes - 1));
    const auto upper = std::min<std::int64_t>(kTimes, lower + 2 + random() % 4);
    const auto bytes = static_cast<Bytes>(1 + random() % 5);
    problem.buffers.push_back({lower, upper, bytes});
    for (std::int64_t time = lower; time < upper; ++time) live[time] += bytes;
  }
  const Bytes load = *std::max_element(live.begin(), live.end());
  for (std::int64_t time = 0; time < kTimes; ++time) {
    problem.buffers.push_back({time, time + 1, load - live[time]});
  }
  return problem;
}

// A rectangle cut in two again and again, along time or along offsets: its height is LOAD at every
// time, and can be reached.
inline PlacementProblem cutRectangle(std::uint64_t seed, std::size_t buffers) {
  std::mt19937_64 random(seed);
  PlacementProblem problem{{{0, 64, 64}}, 1};
  while (problem.buffers.size() < buffers) {
    const std::size_t i = random() % problem.buffers.size();
    Buffer& one = problem.buffers[i];
    Buffer other = one;
    const bool along_time = random() % 2 == 0;
    const std::int64_t length = along_time ? one.upper - one.lower : one.bytes;
    if (length < 2) continue;
    const auto part = 1 + static_cast<std::int64_t>(random() % (length - 1));
    if (along_time) {
      one.upper = other.lower = one.lower + part;
    } else {
      one.bytes = part;
      other.bytes -= part;
    }
    problem.buffers.push_back(other);
  }
  std::shuffle(problem.buffers.begin(), problem.buffers.end(), random);
  return problem;
}

// A training step: activations are born in the forward pass and die in the backward pass, the last
// first; each op has temporaries. Sizes are multiples of 4096.
inline PlacementProblem trainingStep(std::uint64_t seed, std::int64_t layers) {
  std::mt19937_64 random(seed);
  const auto pages = [&](std::uint64_t most) {
    return static_cast<Bytes>(4096 * (1 + random() % most));
  };
  PlacementProblem problem;
  for (std::int64_t layer = 0; layer < layers; ++layer) {
    const std::int64_t forward = 4 * layer, backward = 4 * (2 * layers - layer);
    const Bytes activation = pages(random() % 4 == 0 ? 4096 : 256);
    problem.buffers.push_back({forward, backward + 2, activation});
    problem.buffers.push_back({forward + 1, backward + 1, pages(64)});
    problem.buffers.push_back({forward, forward + 5, activation});    // until the next layer ran
    problem.buffers.push_back({backward, backward + 6, activation});  // its gradient
    for (const std::int64_t start : {forward, backward}) {
      problem.buffers.push_back({start, start + 1, pages(2048)});
      problem.buffers.push_back({start + 2, start + 3, pages(512)});
    }
  }
  problem.alignment_bytes = 4096;
  return problem;
}

}  // namespace ebbtide::scheduler
