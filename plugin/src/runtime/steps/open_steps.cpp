#include "runtime/steps/open_steps.hpp"

#include <algorithm>
#include <utility>

namespace ebbtide::plugin {

OpenSteps::Number OpenSteps::begin() {
  open_.push_back(last_ + 1);
  return ++last_;
}

void OpenSteps::changeBudget() {
  awaited_ = open_;
  first_ = last_ + 1;
  neighbours_ = false;
  ends_ = 0;
  awaits_ = !awaited_.empty();
}

bool OpenSteps::end(Number step) {
  std::erase(open_, step);
  std::erase(awaited_, step);
  if (!awaits_) return false;
  if (++ends_ < kMostEnds && !awaited_.empty()) return false;
  if (!neighbours_ && awaitNeighbours()) return false;
  awaits_ = false;
  awaited_.clear();
  return true;
}

// False: there are none.
bool OpenSteps::awaitNeighbours() {
  const std::vector<Number> resting = std::exchange(awaited_, open_);
  std::erase_if(awaited_, [&resting](Number step) {
    return std::find(resting.begin(), resting.end(), step) != resting.end();
  });
  first_ = last_ + 1;
  neighbours_ = true;
  ends_ = 0;
  return !awaited_.empty();
}

}  // namespace ebbtide::plugin
