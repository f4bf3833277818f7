// RecentSteps: what the last steps took, for those who look on. Torch-free; whoever has it guards
// it.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <vector>

namespace ebbtide::plugin {

class RecentSteps {
 public:
  static constexpr std::size_t kMost = 120;
  static constexpr std::size_t kWindow = 20;  // steps that stand for how the run goes now

  struct Step {
    std::int64_t number = 0;
    std::uint64_t program = 0;  // 0: not known which
    double seconds = 0;
    double recompute_seconds = 0;
    double added_seconds = 0;     // by us: recomputing, encoding, copies to the host and back
    std::int64_t peak_bytes = 0;  // largest live bytes
  };

  // `unix_seconds`: the system's time at its end.
  void add(const Step& step, double unix_seconds) {
    steps_.push_back(step);
    if (steps_.size() > kMost) steps_.pop_front();
    last_unix_seconds_ = unix_seconds;
  }

  // At most so many, the newest at its end.
  std::vector<Step> last(std::size_t most = kMost) const {
    const std::size_t count = std::min(most, steps_.size());
    return {steps_.end() - static_cast<std::ptrdiff_t>(count), steps_.end()};
  }
  struct Medians {
    double seconds = 0;
    double plain_seconds = 0;  // less what we added
  };
  // Of at most so many, the newest, those of that program; 0: of all. The upper one of two.
  // Nothing: none is over.
  std::optional<Medians> medians(std::size_t most, std::uint64_t program = 0) const {
    return mediansOf(most,
                     [&](const Step& step) { return program == 0 || step.program == program; });
  }
  // The same of those that `takes` takes.
  template <class Takes>
  std::optional<Medians> mediansOf(std::size_t most, const Takes& takes) const {
    std::vector<double> whole, plain;
    for (const Step& step : last(most)) {
      if (!takes(step)) continue;
      whole.push_back(step.seconds);
      // Replays within replays count twice.
      plain.push_back(std::max(0.0, step.seconds - std::max(0.0, step.added_seconds)));
    }
    if (whole.empty()) return std::nullopt;
    return Medians{upperMedian(whole), upperMedian(plain)};
  }
  Step newest() const { return steps_.empty() ? Step{} : steps_.back(); }
  double lastUnixSeconds() const { return last_unix_seconds_; }  // 0: none is over

 private:
  static double upperMedian(std::vector<double>& figures) {
    const auto middle = figures.begin() + static_cast<std::ptrdiff_t>(figures.size() / 2);
    std::nth_element(figures.begin(), middle, figures.end());
    return *middle;
  }

  std::deque<Step> steps_;
  double last_unix_seconds_ = 0;
};

}  // namespace ebbtide::plugin
