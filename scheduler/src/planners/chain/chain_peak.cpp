#include "planners/chain/chain_peak.hpp"

#include <algorithm>

namespace ebbtide::scheduler {
namespace {

using Kind = ChainStep::Kind;

class PeakTable {
 public:
  explicit PeakTable(const ChainCosts& costs) : costs_(costs), stages_(costs.stages()) {
    cells_.resize(stages_ * (stages_ + 1) / 2);
    for (std::size_t t = 0; t < stages_; ++t) {
      for (std::size_t s = t + 1; s-- > 0;) fill(s, t);
    }
  }

  SmallestPeak result() const {
    SmallestPeak result;
    if (stages_ == 0) return result;
    result.bytes = cell(0, stages_ - 1).bytes;
    expand(result.schedule);
    return result;
  }

 private:
  struct Cell {  // of stages s … t
    Bytes bytes = 0;
    std::size_t cut = 0;  // the next stage whose input is kept; s: stage s saves
  };
  const Cell& cell(std::size_t s, std::size_t t) const { return cells_[t * (t + 1) / 2 + s]; }

  void fill(std::size_t s, std::size_t t) {
    Cell best{std::max(costs_.savePeak(s, t), costs_.backward[s]), s};
    if (s < t) best.bytes = std::max(best.bytes, costs_.saved[s] + cell(s + 1, t).bytes);
    Bytes forward = 0;
    for (std::size_t c = s + 1; c <= t && forward < best.bytes; ++c) {
      const Bytes beyond = c - 1 == s ? 0 : costs_.input[c - 1];
      forward = std::max(forward, beyond + costs_.runPeak(c - 1, t));
      const Bytes bytes =
          std::max({forward, costs_.input[c] + cell(c, t).bytes, cell(s, c - 1).bytes});
      if (bytes < best.bytes) best = {bytes, c};
    }
    cells_[t * (t + 1) / 2 + s] = best;
  }

  void expand(ChainSchedule& steps) const {
    struct Task {
      std::size_t s, t;
      bool backward;  // of s alone
    };
    std::vector<Task> tasks = {{0, stages_ - 1, false}};
    while (!tasks.empty()) {
      const auto [s, t, backward] = tasks.back();
      tasks.pop_back();
      const std::int32_t stage = static_cast<std::int32_t>(s);
      if (backward) {
        steps.push_back({Kind::kBackward, stage});
        continue;
      }
      const std::size_t cut = cell(s, t).cut;
      steps.push_back({cut == s ? Kind::kRunSave : Kind::kRunKeep, stage});
      if (cut == s) {
        tasks.push_back({s, s, true});
        if (s < t) tasks.push_back({s + 1, t, false});
        continue;
      }
      for (std::size_t run = s + 1; run < cut; ++run) {
        steps.push_back({Kind::kRun, static_cast<std::int32_t>(run)});
      }
      tasks.push_back({s, cut - 1, false});
      tasks.push_back({cut, t, false});
    }
  }

  const ChainCosts& costs_;
  const std::size_t stages_;
  std::vector<Cell> cells_;
};

}  // namespace

SmallestPeak smallestPeak(const ChainCosts& costs) {
  return PeakTable(costs).result();
}

}  // namespace ebbtide::scheduler
