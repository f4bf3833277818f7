#include "search/replay_polish.hpp"

#include <algorithm>
#include <memory>
#include <thread>
#include <vector>

#include "model/saved_bytes.hpp"
#include "search/replay_search.hpp"

namespace ebbtide::scheduler {
namespace {

constexpr std::int64_t kFirstRound = 30'000, kLongestRound = 4'000'000;
constexpr unsigned kMostThreads = 64;

// Did a pair of rounds gain enough?
bool gained(const PlanCost& from, const PlanCost& to, Nanoseconds step_ns, double least) {
  if (from.feasible != to.feasible) return true;
  const auto share = [](std::int64_t gain, std::int64_t whole) {
    return static_cast<double>(gain) / static_cast<double>(std::max<std::int64_t>(whole, 1));
  };
  return (from.feasible ? share(from.recompute_ns - to.recompute_ns, step_ns)
                        : share(from.peak_bytes - to.peak_bytes, from.peak_bytes)) >= least;
}

// Rounds of annealing, each longer than the one before, alternately hot and mild, from the best
// state so far; until the moves or the time are spent, little is gained, or nothing can be better.
void improve(ReplaySearch& search, const PolishEffort& effort, Nanoseconds step_ns) {
  std::int64_t moves = effort.moves, round = kFirstRound;
  PlanCost before{};
  for (int i = 0; moves > 0 && search.hasCandidates() && !search.late(); ++i) {
    const PlanCost now = search.cost();
    if (now.feasible && now.recompute_ns <= effort.enough_ns) return;
    if (i % 2 == 0) {
      if (i > 0 && !gained(before, now, step_ns, effort.least_gain)) return;
      before = now;
    }
    const std::int64_t share = std::min(round, moves);
    search.anneal(share, i % 2 == 0 ? 0.3 : 0.1);
    moves -= share;
    round = std::min(2 * round, kLongestRound);
  }
}

}  // namespace

Schedule polish(const Graph& whole, Bytes budget_bytes, const PlannerOptions& options,
                const Schedule& start, const PolishEffort& effort) {
  const Graph with_saved = whole.keepsGraphs() ? withSavedFixed(whole, start) : Graph();
  const Graph& graph = whole.keepsGraphs() ? with_saved : whole;
  std::vector<std::unique_ptr<ReplaySearch>> searches;
  // A pace is asked by the thread that plans alone.
  const unsigned most = options.pace == nullptr ? kMostThreads : 1u;
  for (unsigned i = 0; i < std::clamp(options.threads, 1u, most); ++i) {
    const ReplaySearchOptions one{budget_bytes, effort.intervals, options.seed + i, options};
    searches.push_back(std::make_unique<ReplaySearch>(graph, one));
    searches.back()->startFrom(start);
    if (!searches.back()->feasible()) searches.back()->construct();
  }
  const Nanoseconds step_ns = graph.totalDurationNs();
  std::vector<std::thread> threads;
  for (std::size_t i = 1; i < searches.size(); ++i) {
    threads.emplace_back([&, i] { improve(*searches[i], effort, step_ns); });
  }
  improve(*searches[0], effort, step_ns);
  for (std::thread& thread : threads) thread.join();
  return (*std::min_element(searches.begin(), searches.end(),
                            [](const auto& a, const auto& b) { return a->cost() < b->cost(); }))
      ->schedule();
}

}  // namespace ebbtide::scheduler
