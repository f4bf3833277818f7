#include "placement/height_search.hpp"

#include <algorithm>
#include <numeric>
#include <utility>

#include "placement/attempts.hpp"
#include "placement/buffer_orders.hpp"
#include "placement/floor_search.hpp"

namespace ebbtide::scheduler {
namespace {

constexpr std::int64_t kMostPairs = 4'000'000;  // alive at once; 100 MB a thread
constexpr std::int64_t kLeastNodes = 1'000;     // of an attempt; more for more buffers
constexpr std::int64_t kWork = 400'000;         // nodes in all without a deadline
constexpr std::int64_t kSlowGrowth = 16;        // attempts get 1/16 more nodes each round
constexpr double kNoise = 0.15;                 // of orders that take chances

Bytes unitOf(const LiveSections& sections) {
  Bytes unit = 0;
  for (const LiveSpan& span : sections.spans) unit = std::gcd(unit, span.bytes);
  return unit;
}

}  // namespace

HeightSearch::HeightSearch(const LiveSections& sections, const PlacementOptions& options,
                           Packing start, std::string method)
    : sections_(sections),
      options_(options),
      unit_bytes_(unitOf(sections)),
      best_(std::move(start)),
      method_(std::move(method)),
      least_(sections.load_bytes) {}

bool HeightSearch::isDone(Bytes goal_bytes) const {
  return best_.height_bytes <= std::max(goal_bytes, least_) || SearchEnd(options_).reached();
}

void HeightSearch::prepare() {
  if (TimeNeighbours::pairs(sections_) <= kMostPairs) neighbours_.emplace(sections_);
  const BufferOrders spans(sections_);
  for (const BufferOrder& order : neighbours_ ? searchOrders() : packingOrders()) {
    if (SearchEnd(options_).reached()) return;
    const double noise = orders_.size() % 2 == 0 ? 0 : kNoise;
    orders_.emplace_back(spans.spans(order), noise, options_.seed + orders_.size());
  }
}

void HeightSearch::run(Bytes goal_bytes) {
  if (isDone(goal_bytes)) return;
  prepare();
  const auto count = static_cast<std::int64_t>(sections_.spans.size());
  std::int64_t nodes = std::max(kLeastNodes, 2 * count);
  const bool timed = options_.deadline != kNoDeadline;
  for (std::int64_t round = 0, work = 0; timed || work < kWork; ++round) {
    if (isDone(goal_bytes)) return;
    attemptAll(nextHeight(round, goal_bytes), nodes);
    work += nodes * static_cast<std::int64_t>(orders_.size());
    nodes += nodes / kSlowGrowth;
  }
}

// The goal itself; in between halfway, or a bit below the best, whose failure would prove it.
Bytes HeightSearch::nextHeight(std::int64_t round, Bytes goal_bytes) const {
  const Bytes goal = std::max(goal_bytes, least_);
  const Bytes below_best = best_.height_bytes - unit_bytes_;
  if (round % 2 == 0 || goal >= below_best) return std::min(goal, below_best);
  return round % 4 == 1 ? goal + (below_best - goal) / 2 : below_best;
}

void HeightSearch::attemptAll(Bytes height_bytes, std::int64_t nodes) {
  std::vector<Attempt> attempts(orders_.size());
  const auto attempt = [&](std::size_t i, const std::atomic<bool>& cancelled) {
    attempts[i] = neighbours_ ? search(orders_[i], height_bytes, nodes, cancelled)
                              : pack(orders_[i], height_bytes);
    return attempts[i].impossible || !attempts[i].packing.offsets.empty();
  };
  const std::size_t first = firstSuccess(orders_.size(), options_.threads, attempt);
  if (first < orders_.size()) {
    Attempt& success = attempts[first];
    if (success.impossible) {
      least_ = (height_bytes / unit_bytes_ + 1) * unit_bytes_;
    } else {
      best_ = std::move(success.packing);
      method_ = neighbours_ ? "exact search" : "first fit by a learned order";
    }
  }
  for (std::size_t i = 0; i < std::min(first, orders_.size()); ++i) {
    orders_[i].learn(attempts[i].blame);
  }
}

HeightSearch::Attempt HeightSearch::search(const LearnedOrder& order, Bytes height_bytes,
                                           std::int64_t nodes,
                                           const std::atomic<bool>& cancelled) const {
  FloorSearch floors(sections_, *neighbours_, order.order(), height_bytes);
  const FloorSearch::Outcome outcome = floors.run({nodes, options_, &cancelled});
  Attempt attempt;
  attempt.impossible = outcome == FloorSearch::Outcome::kImpossible;
  attempt.blame = floors.blame();
  if (outcome != FloorSearch::Outcome::kFound) return attempt;
  attempt.packing.offsets = floors.offsets();
  for (std::size_t i = 0; i < sections_.spans.size(); ++i) {
    attempt.packing.height_bytes =
        std::max(attempt.packing.height_bytes, floors.offsets()[i] + sections_.spans[i].bytes);
  }
  return attempt;
}

// To blame is the first that does not fit below the height.
HeightSearch::Attempt HeightSearch::pack(const LearnedOrder& order, Bytes height_bytes) const {
  Attempt attempt;
  attempt.blame.assign(sections_.spans.size(), 0);
  attempt.packing = packInOrder(sections_, order.order(), Fit::kFirst, height_bytes + 1, options_);
  if (attempt.packing.given_up_at != kNone) attempt.blame[attempt.packing.given_up_at] = 1;
  return attempt;
}

}  // namespace ebbtide::scheduler
