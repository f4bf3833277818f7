// An order that learns from failed attempts: what was in the way of success comes earlier.
#pragma once

#include <cstdint>
#include <random>
#include <vector>

namespace ebbtide::scheduler {

class LearnedOrder {
 public:
  // `start`: numbers of all spans. `noise`: by which chance moves a span, in lengths of the order.
  LearnedOrder(std::vector<std::int32_t> start, double noise, std::uint64_t seed);

  const std::vector<std::int32_t>& order() const { return order_; }
  // How much each span is to blame for the failure of an attempt with order(). Sets the next one.
  void learn(const std::vector<std::int64_t>& blame);

 private:
  double noise_;
  std::vector<double> start_;   // of each span: 1 for the first of the order given, 0 for the last
  std::vector<double> weight_;  // blame of late, the last attempt's counting most
  std::vector<std::int32_t> order_;
  std::mt19937_64 random_;
};

}  // namespace ebbtide::scheduler
