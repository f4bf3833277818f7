#include "planners/chain/block_curve.hpp"

#include <algorithm>
#include <tuple>
#include <utility>

#include "ebbtide/scheduler/simulator.hpp"
#include "search/retention.hpp"
#include "search/retention_cut.hpp"

namespace ebbtide::scheduler {
namespace {

// At most kMostForAll values: all subsets are tried. At most kMostForOne: each value is tried
// alone.
constexpr std::size_t kMostForAll = 9, kMostForOne = 64;
constexpr std::size_t kMostCuts = 24;
constexpr double kLargestPrice = 1e3;  // nanoseconds per byte

class CurveSearch {
 public:
  CurveSearch(const Block& block, const std::function<bool()>& late)
      : block_(block), late_(late), builder_(block.graph), free_(block.graph.values.size(), false) {
    const OpId first_event = static_cast<OpId>(block.forward_ops);
    for (std::size_t id = 0; id < block.graph.values.size(); ++id) {
      const ValueId value = static_cast<ValueId>(id);
      if (value == block.output || !builder_.droppable(value)) continue;
      if (builder_.lastNeed(value) >= first_event) values_.push_back(value);
    }
    if (block.output != kNone) free_[block.output] = true;
  }

  std::vector<BlockSave> run() {
    Retention all = builder_.keepAll();
    if (block_.output != kNone) all.keep[block_.output] = true;
    judge(all);
    if (values_.size() <= kMostForAll) {
      trySubsets(all);
    } else {
      searchPrices();
    }
    return std::move(found_);
  }

 private:
  std::size_t judge(const Retention& retention) {
    const Simulation simulation = simulate(block_.graph, builder_.build(retention));
    BlockSave save;
    save.replay_ns = simulation.recompute_ns;
    const auto peak = simulation.live_bytes.begin();
    const auto events = peak + static_cast<std::ptrdiff_t>(block_.forward_ops);
    save.forward_peak = *std::max_element(peak, events);
    save.backward_peak = *std::max_element(events, simulation.live_bytes.end());
    if (block_.output != kNone) save.saved_bytes = block_.graph.values[block_.output].bytes;
    for (ValueId value : values_) {
      if (!retention.keep[value]) continue;
      save.kept.push_back(value);
      save.saved_bytes += block_.graph.values[value].bytes;
    }
    found_.push_back(std::move(save));
    return found_.size() - 1;
  }

  void trySubsets(const Retention& all) {
    Retention retention = all;
    for (std::size_t set = 0; set < std::size_t{1} << values_.size() && !late_(); ++set) {
      for (std::size_t i = 0; i < values_.size(); ++i) retention.keep[values_[i]] = set >> i & 1;
      judge(retention);
    }
  }

  std::size_t judgePrice(double price) {
    Retention retention = retentionAtPrice(block_.graph, builder_, price, free_);
    if (block_.output != kNone) retention.keep[block_.output] = true;
    return judge(retention);
  }

  // The vertices of the hull, each found between two others by the price at which these are equal.
  void searchPrices() {
    std::vector<std::pair<std::size_t, std::size_t>> open = {{0, judgePrice(kLargestPrice)}};
    std::vector<std::size_t> hull = {0, open[0].second};
    for (std::size_t cuts = 0; cuts < kMostCuts && !open.empty() && !late_(); ++cuts) {
      const auto [dear, cheap] = open.back();  // in bytes
      open.pop_back();
      const double bytes =
          static_cast<double>(found_[dear].saved_bytes - found_[cheap].saved_bytes);
      const double time = static_cast<double>(found_[cheap].replay_ns - found_[dear].replay_ns);
      if (bytes <= 0 || time <= 0) continue;
      const double price = time / bytes;
      const auto cost = [&](std::size_t i) {
        return static_cast<double>(found_[i].replay_ns) +
               price * static_cast<double>(found_[i].saved_bytes);
      };
      const std::size_t between = judgePrice(price);
      if (cost(between) >= cost(dear) * (1 - 1e-6)) continue;
      hull.push_back(between);
      open.insert(open.begin(), {{dear, between}, {between, cheap}});
    }
    if (values_.size() <= kMostForOne) tryNeighbours(hull);
  }

  void tryNeighbours(const std::vector<std::size_t>& hull) {
    for (std::size_t vertex : hull) {
      Retention retention;
      retention.memo.assign(free_.size(), true);
      retention.keep.assign(free_.size(), false);
      for (ValueId value : found_[vertex].kept) retention.keep[value] = true;
      if (block_.output != kNone) retention.keep[block_.output] = true;
      for (ValueId value : values_) {
        if (late_()) return;
        retention.keep[value] = !retention.keep[value];
        judge(retention);
        retention.keep[value] = !retention.keep[value];
      }
    }
  }

  const Block& block_;
  const std::function<bool()>& late_;
  ScheduleBuilder builder_;
  std::vector<bool> free_;
  std::vector<ValueId> values_;  // that may be kept or not
  std::vector<BlockSave> found_;
};

// By rising time and falling bytes, or else peak: only those that no earlier one is as good as.
std::vector<BlockSave> frontier(std::vector<BlockSave> saves, Bytes BlockSave::*bytes) {
  std::stable_sort(saves.begin(), saves.end(), [&](const BlockSave& a, const BlockSave& b) {
    return std::tuple(a.replay_ns, a.*bytes, a.backward_peak) <
           std::tuple(b.replay_ns, b.*bytes, b.backward_peak);
  });
  std::vector<BlockSave> best;
  for (BlockSave& save : saves) {
    if (best.empty() || save.*bytes < best.back().*bytes) best.push_back(std::move(save));
  }
  return best;
}

// Leaves out, one by one, what is closest below the line between its neighbours.
void thin(std::vector<BlockSave>& saves, std::size_t most, Bytes BlockSave::*bytes) {
  const auto number = [](auto n) { return static_cast<double>(n); };
  while (saves.size() > std::max<std::size_t>(most, 2)) {
    std::size_t least = 1;
    double least_worth = 0;
    for (std::size_t i = 1; i + 1 < saves.size(); ++i) {
      const BlockSave &before = saves[i - 1], &here = saves[i], &after = saves[i + 1];
      const double share =
          number(before.*bytes - here.*bytes) / number(before.*bytes - after.*bytes);
      const double line =
          number(before.replay_ns) + share * number(after.replay_ns - before.replay_ns);
      const double worth = line - number(here.replay_ns);
      if (i > 1 && worth >= least_worth) continue;
      least = i;
      least_worth = worth;
    }
    saves.erase(saves.begin() + static_cast<std::ptrdiff_t>(least));
  }
}

}  // namespace

std::vector<BlockSave> blockCurve(const Block& block, std::size_t most,
                                  const std::function<bool()>& late) {
  const std::vector<BlockSave> found = CurveSearch(block, late).run();
  std::vector<BlockSave> curve = {found[0]};
  // A quarter of them for low peaks in backward.
  std::vector<BlockSave> bytes = frontier(found, &BlockSave::saved_bytes);
  std::vector<BlockSave> peaks = frontier(found, &BlockSave::backward_peak);
  thin(bytes, most - most / 4, &BlockSave::saved_bytes);
  thin(peaks, most / 4, &BlockSave::backward_peak);
  bytes.insert(bytes.end(), peaks.begin(), peaks.end());
  std::stable_sort(bytes.begin(), bytes.end(), [](const BlockSave& a, const BlockSave& b) {
    return a.saved_bytes > b.saved_bytes;
  });
  for (BlockSave& save : bytes) {
    const bool known = std::any_of(curve.begin(), curve.end(),
                                   [&](const BlockSave& one) { return one.kept == save.kept; });
    if (!known) curve.push_back(std::move(save));
  }
  return curve;
}

}  // namespace ebbtide::scheduler
