#include "placement/learned_order.hpp"

#include <algorithm>

namespace ebbtide::scheduler {
namespace {

// Found by trial on the published instances.
constexpr double kMemory = 0.95;  // of the weights, from one attempt to the next
constexpr double kPull = 3;       // of the largest weight, in lengths of the order

}  // namespace

LearnedOrder::LearnedOrder(std::vector<std::int32_t> start, double noise, std::uint64_t seed)
    : noise_(noise),
      start_(start.size()),
      weight_(start.size(), 0),
      order_(std::move(start)),
      random_(seed) {
  for (std::size_t i = 0; i < order_.size(); ++i) {
    start_[order_[i]] = 1 - static_cast<double>(i) / static_cast<double>(order_.size());
  }
}

void LearnedOrder::learn(const std::vector<std::int64_t>& blame) {
  std::int64_t most = 1;
  for (const std::int64_t one : blame) most = std::max(most, one);
  double heaviest = 1e-9;
  for (std::size_t i = 0; i < weight_.size(); ++i) {
    weight_[i] = kMemory * weight_[i] + static_cast<double>(blame[i]) / static_cast<double>(most);
    heaviest = std::max(heaviest, weight_[i]);
  }
  std::vector<double> keys(start_);
  for (std::size_t i = 0; i < keys.size(); ++i) {
    const double chance = static_cast<double>(random_() >> 11) * 0x1p-53;  // [0, 1)
    keys[i] += kPull * weight_[i] / heaviest + noise_ * (chance - 0.5);
  }
  std::stable_sort(order_.begin(), order_.end(),
                   [&](std::int32_t a, std::int32_t b) { return keys[a] > keys[b]; });
}

}  // namespace ebbtide::scheduler
