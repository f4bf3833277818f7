#include "planners/chain/revolve_planner.hpp"

#include <algorithm>
#include <limits>

#include "model/planner_options.hpp"
#include "planners/chain/chain_search.hpp"

namespace ebbtide::scheduler {
namespace {

using Kind = ChainStep::Kind;

constexpr std::size_t kMostStages = 4096;

// Binomial coefficient of n over k, at most kMany.
constexpr std::int64_t kMany = std::int64_t{1} << 40;
std::int64_t binomial(std::int64_t n, std::int64_t k) {
  if (k < 0 || k > n) return 0;
  std::int64_t result = 1;
  for (std::int64_t i = 1; i <= std::min(k, n - k); ++i) {
    result = result * (n - std::min(k, n - k) + i) / i;
    if (result > kMany) return kMany;
  }
  return result;
}

// The homogeneous chain: all stages take one unit of time and all inputs one of memory.
class BinomialSchedule {
 public:
  ChainSchedule make(std::size_t stages, std::size_t kept) {
    if (stages > 0) process(0, stages, kept);
    return std::move(steps_);
  }

 private:
  // Least number of stages run on the way when `length` stages are reversed with their input and
  // `kept` more inputs, c = kept + 1 in all: r·length - β(c+1, r-1) for the least r with
  // β(c, r) >= length, where β(c, r) = (c+r over c) stages can be reversed by r repetitions.
  static std::int64_t repeated(std::int64_t length, std::int64_t kept) {
    if (length <= 1) return 0;
    if (kept == 0) return length * (length - 1) / 2;
    std::int64_t r = 0;
    while (binomial(kept + 1 + r, r) < length) ++r;
    return r * length - binomial(kept + 1 + r, r - 1);
  }

  static std::size_t bestSplit(std::size_t length, std::size_t kept) {
    std::size_t best = 1;
    std::int64_t least = std::numeric_limits<std::int64_t>::max();
    for (std::size_t split = 1; split < length; ++split) {
      const auto size = [](std::size_t count) { return static_cast<std::int64_t>(count); };
      const std::int64_t time = size(split) + repeated(size(length - split), size(kept) - 1) +
                                repeated(size(split), size(kept));
      if (time < least) best = split;
      least = std::min(least, time);
    }
    return best;
  }

  void add(Kind kind, std::size_t stage) {
    steps_.push_back({kind, static_cast<std::int32_t>(stage)});
  }

  // Runs from stage `begin`, whose input stays, to the input of `end`.
  void advance(std::size_t begin, std::size_t end) {
    for (std::size_t s = begin; s < end; ++s) add(s == begin ? Kind::kRunKeep : Kind::kRun, s);
  }

  void process(std::size_t begin, std::size_t end, std::size_t kept) {
    while (end - begin > 1 && kept > 0) {
      const std::size_t middle = begin + bestSplit(end - begin, kept);
      advance(begin, middle);
      process(middle, end, kept - 1);
      end = middle;
    }
    for (std::size_t s = end; s-- > begin;) {
      advance(begin, s);
      add(Kind::kRunSave, s);
      add(Kind::kBackward, s);
    }
  }

  ChainSchedule steps_;
};

}  // namespace

PlannerInfo RevolvePlanner::info() const {
  return {"revolve", "Griewank and Walther 2000; baseline in rotor2024 section 5.4",
          "The fastest that fits of the schedules that are optimal where all stages are alike and "
          "nothing but inputs is kept."};
}

PlanResult RevolvePlanner::plan(const Graph& graph, Bytes budget_bytes,
                                const PlannerOptions& options) const {
  rejectUnknownOptions(options, info());
  ChainSearch search(graph, budget_bytes, options, info().name);
  if (search.best().feasible || search.late()) return search.best();
  search.contract(kMostStages);
  const auto consider = [&search](std::size_t kept) {
    std::vector<ChainSchedule> schedules;
    for (const ChainContraction& chain : search.chains()) {
      schedules.push_back(BinomialSchedule().make(chain.costs.stages(), kept));
    }
    return search.consider(schedules);
  };
  const std::size_t stages = search.mostStages();
  std::size_t kept = stages;
  // More inputs kept, less time: from many to few until one fits.
  while (kept > 0 && !search.late() && consider(kept) > budget_bytes) {
    kept = std::min(kept - 1, kept * 15 / 16);
  }
  if (kept == 0 && !search.late()) consider(0);
  for (std::size_t more = kept + 1; kept > 0 && more <= kept * 16 / 15 + 1 && more <= stages;
       ++more) {
    if (search.late()) break;
    consider(more);
  }
  return search.best();
}

}  // namespace ebbtide::scheduler
