#include "ebbtide/scheduler/layered_stage.hpp"

#include <algorithm>
#include <stdexcept>

namespace ebbtide::scheduler {
namespace {

constexpr std::int64_t kMost = std::int64_t{1} << 60;  // of a checked job's numbers

std::int64_t sum(std::int64_t first, std::int64_t then) {
  if (first < 0 || then < 0) throw std::invalid_argument("a negative number");
  if (first > kMost || then > kMost - first) throw std::invalid_argument("a sum over 2^60");
  return first + then;
}

StagePoint join(const StagePoint& first, const StagePoint& then, bool replays_ahead) {
  StagePoint point;
  point.held_bytes = sum(first.held_bytes, then.held_bytes);
  point.forward_bytes = std::max(first.forward_bytes, sum(first.held_bytes, then.forward_bytes));
  point.backward_bytes =
      replays_ahead ? sum(first.backward_bytes, then.backward_bytes)
                    : std::max(first.backward_bytes, sum(first.held_bytes, then.backward_bytes));
  point.recompute_ns = sum(first.recompute_ns, then.recompute_ns);
  return point;
}

void append(StageProfile& stage, const StageProfile& layer) {
  stage.forward_ns = sum(stage.forward_ns, layer.forward_ns);
  stage.input_backward_ns = sum(stage.input_backward_ns, layer.input_backward_ns);
  stage.weight_backward_ns = sum(stage.weight_backward_ns, layer.weight_backward_ns);
  stage.tail_ns = sum(stage.tail_ns, layer.tail_ns);
  stage.fixed_bytes = sum(stage.fixed_bytes, layer.fixed_bytes);
  stage.weight_held_bytes = sum(stage.weight_held_bytes, layer.weight_held_bytes);
  stage.output_bytes = layer.output_bytes;
}

std::vector<StagePoint> joinPoints(const std::vector<StagePoint>& firsts,
                                   const std::vector<StagePoint>& thens, bool replays_ahead) {
  if (firsts.empty()) return thens;
  std::vector<StagePoint> sums;
  for (const StagePoint& first : firsts) {
    for (const StagePoint& then : thens) sums.push_back(join(first, then, replays_ahead));
  }
  return sums;
}

// Leaves those that no other one is as good as: by rising time, falling bytes.
void keepBest(std::vector<StagePoint>& points) {
  std::sort(points.begin(), points.end(), [](const StagePoint& a, const StagePoint& b) {
    return a.recompute_ns != b.recompute_ns ? a.recompute_ns < b.recompute_ns
                                            : a.held_bytes < b.held_bytes;
  });
  std::vector<StagePoint> best;
  for (const StagePoint& point : points) {
    if (best.empty() || point.held_bytes < best.back().held_bytes) best.push_back(point);
  }
  points = std::move(best);
}

// Those nearest to equal distances in bytes.
void thin(std::vector<StagePoint>& points, std::size_t most) {
  if (points.size() <= most) return;
  const Bytes highest = points.front().held_bytes, lowest = points.back().held_bytes;
  std::vector<StagePoint> kept;
  for (const StagePoint& point : points) {
    const double part =
        static_cast<double>(highest - point.held_bytes) / static_cast<double>(highest - lowest);
    if (part * static_cast<double>(most - 1) >= static_cast<double>(kept.size())) {
      kept.push_back(point);
    }
  }
  points = std::move(kept);
}

}  // namespace

StageProfile joinLayers(const std::string& name, const std::vector<StageProfile>& layers,
                        bool replays_ahead, std::size_t most_points) {
  if (layers.empty()) throw std::invalid_argument(name + ": no layer");
  StageProfile stage;
  stage.name = name;
  for (const StageProfile& layer : layers) {
    if (layer.points.empty()) throw std::invalid_argument(layer.name + ": no point");
    try {
      append(stage, layer);
      stage.points = joinPoints(stage.points, layer.points, replays_ahead);
    } catch (const std::invalid_argument& error) {
      throw std::invalid_argument(name + ": " + error.what() + ", with layer '" + layer.name + "'");
    }
    keepBest(stage.points);
    thin(stage.points, std::max<std::size_t>(most_points, 2));
  }
  return stage;
}

}  // namespace ebbtide::scheduler
