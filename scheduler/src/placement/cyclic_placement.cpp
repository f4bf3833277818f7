#include "ebbtide/scheduler/cyclic_placement.hpp"

#include <algorithm>
#include <limits>
#include <stdexcept>

#include "ebbtide/scheduler/placement_validator.hpp"

namespace ebbtide::scheduler {
namespace {

Bytes alignedSize(const PlacementProblem& problem, std::size_t buffer) {
  const Bytes align = problem.alignment_bytes;
  return (problem.buffers[buffer].bytes + align - 1) / align * align;
}

void checkCycle(const CyclicPlacementProblem& cycle) {
  for (std::size_t i = 0; i < cycle.problem.buffers.size(); ++i) {
    const Buffer& buffer = cycle.problem.buffers[i];
    if (buffer.lower < 0 || buffer.lower >= cycle.period ||
        buffer.upper > buffer.lower + cycle.period) {
      throw std::invalid_argument("buffer " + std::to_string(i) + " lives outside of its round");
    }
  }
}

// Live bytes from each moment on that something begins or ends, over one round.
struct Moment {
  std::int64_t at;
  Bytes live_bytes;
};

std::vector<Moment> liveBytes(const CyclicPlacementProblem& cycle) {
  std::vector<std::pair<std::int64_t, Bytes>> changes;
  Bytes live = 0;  // at 0
  for (std::size_t i = 0; i < cycle.problem.buffers.size(); ++i) {
    const Buffer& buffer = cycle.problem.buffers[i];
    const Bytes bytes = alignedSize(cycle.problem, i);
    changes.emplace_back(buffer.lower, bytes);
    changes.emplace_back(buffer.upper % cycle.period, -bytes);
    if (buffer.upper > cycle.period) live += bytes;
    if (buffer.upper == cycle.period) changes.back().second = 0;  // ends where it all begins
  }
  std::sort(changes.begin(), changes.end());
  std::vector<Moment> moments;
  for (std::size_t i = 0; i < changes.size();) {
    const std::int64_t at = changes[i].first;
    for (; i < changes.size() && changes[i].first == at; ++i) live += changes[i].second;
    moments.push_back({at, live});
  }
  return moments;
}

// What lives at the cut: it begins late in the round, and ends early in the next one.
struct Crossing {
  std::int32_t buffer;
  std::int64_t birth, death;  // 0 <= death <= birth < period
  Bytes bytes;
};

// Takes out what is there all the time in effect: the end of one that meets the begin of another
// would lift it, but not its own end. Of two such the smaller one.
std::vector<std::int32_t> takeLongest(std::vector<Crossing>& crossing) {
  std::vector<std::int32_t> longest;
  for (;;) {
    const auto last = std::max_element(
        crossing.begin(), crossing.end(),
        [](const Crossing& left, const Crossing& right) { return left.death < right.death; });
    const auto first = std::min_element(
        crossing.begin(), crossing.end(),
        [](const Crossing& left, const Crossing& right) { return left.birth < right.birth; });
    if (first == last || last->death <= first->birth) return longest;
    const auto smaller = first->bytes < last->bytes ? first : last;
    longest.push_back(smaller->buffer);
    crossing.erase(smaller);
  }
}

// Turned so that the round begins at `cut`. What lives there is two buffers then, its end and its
// begin, stacked by birth: so both are as low as the ones born before it let them, at the same
// offset.
PlacementProblem turned(const CyclicPlacementProblem& cycle, std::int64_t cut) {
  PlacementProblem line;
  line.alignment_bytes = cycle.problem.alignment_bytes;
  std::vector<Crossing> crossing;
  for (std::size_t i = 0; i < cycle.problem.buffers.size(); ++i) {
    Buffer buffer = cycle.problem.buffers[i];
    const std::int64_t lifetime = buffer.upper - buffer.lower;
    buffer.lower = (buffer.lower - cut + cycle.period) % cycle.period;
    buffer.upper = buffer.lower + lifetime;
    if (buffer.upper > cycle.period && buffer.bytes > 0) {
      crossing.push_back(
          {static_cast<std::int32_t>(i), buffer.lower, buffer.upper - cycle.period, buffer.bytes});
    }
    line.buffers.push_back(buffer);
  }
  line.first = takeLongest(crossing);
  for (const std::int32_t i : line.first) {
    line.buffers[i].lower = 0;
    line.buffers[i].upper = cycle.period;
  }
  std::stable_sort(
      crossing.begin(), crossing.end(),
      [](const Crossing& left, const Crossing& right) { return left.birth < right.birth; });
  for (const Crossing& one : crossing) {
    line.buffers[one.buffer].upper = cycle.period;
    line.first.push_back(static_cast<std::int32_t>(line.buffers.size()));
    line.buffers.push_back({0, one.death, one.bytes});
  }
  for (const Crossing& one : crossing) line.first.push_back(one.buffer);
  return line;
}

}  // namespace

Bytes cyclicLoad(const CyclicPlacementProblem& cycle) {
  checkCycle(cycle);
  Bytes load = 0;
  for (const Moment& moment : liveBytes(cycle)) load = std::max(load, moment.live_bytes);
  return load;
}

Placement placeInCycle(const CyclicPlacementProblem& cycle, const PlacementOptions& options) {
  checkCycle(cycle);
  placementLoad(cycle.problem);  // for its checks
  const std::vector<Moment> moments = liveBytes(cycle);
  Moment least{0, std::numeric_limits<Bytes>::max()};
  Bytes load = 0;
  for (const Moment& moment : moments) {
    if (moment.live_bytes < least.live_bytes) least = moment;
    load = std::max(load, moment.live_bytes);
  }
  Placement placement = place(turned(cycle, least.at), options);
  placement.offsets.resize(cycle.problem.buffers.size());  // the ends come last
  placement.load_bytes = load;
  placement.optimal = placement.height_bytes == load;
  return placement;
}

std::optional<std::string> validateInCycle(const CyclicPlacementProblem& cycle,
                                           const Placement& placement) {
  CyclicPlacementProblem twice = cycle;
  Placement both = placement;
  for (std::size_t i = 0; i < cycle.problem.buffers.size(); ++i) {
    Buffer later = cycle.problem.buffers[i];
    later.lower += cycle.period;
    later.upper += cycle.period;
    twice.problem.buffers.push_back(later);
    if (i < placement.offsets.size()) both.offsets.push_back(placement.offsets[i]);
  }
  return validate(twice.problem, both);
}

}  // namespace ebbtide::scheduler
