#include "ebbtide/scheduler/layered_stage.hpp"

#include <algorithm>
#include <stdexcept>
#include <tuple>

#include "ebbtide/scheduler/most_amount.hpp"

namespace ebbtide::scheduler {
namespace {

std::int64_t sum(std::int64_t first, std::int64_t then) {
  if (first < 0 || then < 0) throw std::invalid_argument("a negative number");
  if (first > kMostAmount || then > kMostAmount - first)
    throw std::invalid_argument("a sum over 2^60");
  return first + then;
}

// A point of the layers so far.
struct Joined {
  StagePoint point;
  Bytes replayed_bytes = 0;  // held once all its replays have run
};

Joined join(const Joined& first, const Joined& then) {
  Joined joined;
  const StagePoint &a = first.point, &b = then.point;
  StagePoint& point = joined.point;
  point.held_bytes = sum(a.held_bytes, b.held_bytes);
  point.forward_bytes = std::max(a.forward_bytes, sum(a.held_bytes, b.forward_bytes));
  point.backward_bytes = std::max(a.backward_bytes, sum(a.held_bytes, b.backward_bytes));
  point.ahead_bytes =
      std::max(sum(a.aheadBytes(), then.replayed_bytes), sum(first.replayed_bytes, b.aheadBytes()));
  point.recompute_ns = sum(a.recompute_ns, b.recompute_ns);
  joined.replayed_bytes = sum(first.replayed_bytes, then.replayed_bytes);
  return joined;
}

// What is not dropped is not replayed; what is takes no more than its backward.
std::vector<Joined> alone(const StageProfile& layer) {
  std::vector<Joined> points;
  for (const StagePoint& point : layer.points) {
    const Bytes kept = std::max(point.held_bytes, layer.points.front().held_bytes);
    points.push_back(
        {point, point.recompute_ns == 0 ? point.held_bytes : std::min(kept, point.aheadBytes())});
  }
  return points;
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

std::vector<Joined> joinPoints(const std::vector<Joined>& firsts,
                               const std::vector<Joined>& thens) {
  if (firsts.empty()) return thens;
  std::vector<Joined> sums;
  for (const Joined& first : firsts) {
    for (const Joined& then : thens) sums.push_back(join(first, then));
  }
  return sums;
}

// Leaves those that no other one is as good as: by rising time, falling bytes.
void keepBest(std::vector<Joined>& points) {
  std::sort(points.begin(), points.end(), [](const Joined& first, const Joined& then) {
    const StagePoint &a = first.point, &b = then.point;
    return std::tie(a.recompute_ns, a.held_bytes, a.backward_bytes, a.ahead_bytes) <
           std::tie(b.recompute_ns, b.held_bytes, b.backward_bytes, b.ahead_bytes);
  });
  std::vector<Joined> best;
  for (const Joined& each : points) {
    if (best.empty() || each.point.held_bytes < best.back().point.held_bytes) best.push_back(each);
  }
  points = std::move(best);
}

// Those nearest to equal distances in bytes.
void thin(std::vector<Joined>& points, std::size_t most) {
  if (points.size() <= most) return;
  const Bytes highest = points.front().point.held_bytes, lowest = points.back().point.held_bytes;
  std::vector<Joined> kept;
  for (const Joined& each : points) {
    const double part = static_cast<double>(highest - each.point.held_bytes) /
                        static_cast<double>(highest - lowest);
    if (part * static_cast<double>(most - 1) >= static_cast<double>(kept.size())) {
      kept.push_back(each);
    }
  }
  points = std::move(kept);
}

}  // namespace

StageProfile joinLayers(const std::string& name, const std::vector<StageProfile>& layers,
                        std::size_t most_points) {
  if (layers.empty()) throw std::invalid_argument(name + ": no layer");
  StageProfile stage;
  stage.name = name;
  stage.layers = static_cast<std::int32_t>(layers.size());
  std::vector<Joined> points;
  for (const StageProfile& layer : layers) {
    if (layer.points.empty()) throw std::invalid_argument(layer.name + ": no point");
    try {
      append(stage, layer);
      points = joinPoints(points, alone(layer));
    } catch (const std::invalid_argument& error) {
      throw std::invalid_argument(name + ": " + error.what() + ", with layer '" + layer.name + "'");
    }
    keepBest(points);
    thin(points, std::max<std::size_t>(most_points, 2));
  }
  for (const Joined& each : points) stage.points.push_back(each.point);
  return stage;
}

}  // namespace ebbtide::scheduler
