// RecentSteps: what the last steps took, for those who look on. Torch-free; whoever has it guards
// it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <vector>

namespace ebbtide::plugin {

class RecentSteps {
 public:
  static constexpr std::size_t kMost = 120;

  struct Step {
    std::int64_t number = 0;
    double seconds = 0;
    double recompute_seconds = 0;
    std::int64_t peak_bytes = 0;  // largest live bytes
  };

  // `unix_seconds`: the system's time at its end.
  void add(const Step& step, double unix_seconds) {
    steps_.push_back(step);
    if (steps_.size() > kMost) steps_.pop_front();
    total_seconds_ += step.seconds;
    last_unix_seconds_ = unix_seconds;
  }

  std::vector<Step> last() const {
    return {steps_.begin(), steps_.end()};
  }  // the newest at its end
  Step newest() const { return steps_.empty() ? Step{} : steps_.back(); }
  double totalSeconds() const { return total_seconds_; }         // of all steps
  double lastUnixSeconds() const { return last_unix_seconds_; }  // 0: none is over

 private:
  std::deque<Step> steps_;
  double total_seconds_ = 0, last_unix_seconds_ = 0;
};

}  // namespace ebbtide::plugin
