#include "moccasin_local_planner.hpp"

#include <algorithm>
#include <limits>
#include <memory>
#include <stdexcept>
#include <thread>
#include <utility>

#include "ebbtide/scheduler/simulator.hpp"
#include "greedy_planner.hpp"
#include "planner_options.hpp"
#include "replay_search.hpp"

namespace ebbtide::scheduler {
namespace {

constexpr std::int64_t kDefaultMoves = 3'000'000;  // some five seconds
constexpr std::int64_t kFirstRound = 30'000, kLongestRound = 4'000'000;
constexpr std::int64_t kMostIntervals = 1'000;
// The greedy start and the lower bound take time that grows faster than the graph: 30 s and more
// on 100,000 ops.
constexpr std::size_t kMostOps = 20'000;
constexpr unsigned kMostThreads = 64;

PlanResult judged(const Graph& graph, Bytes budget_bytes, Schedule schedule) {
  const Simulation simulation = simulate(graph, schedule);
  PlanResult result;
  result.schedule = std::move(schedule);
  result.peak_bytes = simulation.peak_bytes;
  result.recompute_ns = simulation.recompute_ns;
  result.feasible = result.peak_bytes <= budget_bytes;
  result.planner = "moccasin-local";
  return result;
}

bool better(const PlanResult& a, const PlanResult& b) {
  if (a.feasible != b.feasible) return a.feasible;
  const auto first = std::pair(a.recompute_ns, a.peak_bytes);
  const auto second = std::pair(b.recompute_ns, b.peak_bytes);
  if (a.feasible) return first < second;
  return std::pair(first.second, first.first) < std::pair(second.second, second.first);
}

// Rounds of annealing, each longer than the one before, alternately hot and mild, from the best
// state so far; until the moves or the time are spent or nothing can be better.
void improve(ReplaySearch& search, std::int64_t moves, Nanoseconds bound_ns) {
  std::int64_t round = kFirstRound;
  for (int i = 0; moves > 0 && search.hasCandidates() && !search.late(); ++i) {
    if (search.feasible() && search.replayNs() <= bound_ns) return;
    const std::int64_t share = std::min(round, moves);
    search.anneal(share, i % 2 == 0 ? 0.3 : 0.1);
    moves -= share;
    round = std::min(2 * round, kLongestRound);
  }
}

std::int64_t movesAllowed(const PlannerOptions& options) {
  const bool timed = options.deadline != std::chrono::steady_clock::time_point::max();
  return integerOption(options, "work",
                       timed ? std::numeric_limits<std::int64_t>::max() : kDefaultMoves);
}

int intervalsAllowed(const PlannerOptions& options) {
  const std::int64_t intervals = integerOption(options, "intervals", 6);
  if (intervals < 1 || intervals > kMostIntervals) {
    throw std::invalid_argument("planner option 'intervals' is not within 1 to " +
                                std::to_string(kMostIntervals));
  }
  return static_cast<int>(intervals);
}

// One search a thread; the result does not depend on which ends first.
Schedule searchFrom(const Graph& graph, Bytes budget_bytes, const PlannerOptions& options,
                    const Schedule& start, Nanoseconds bound) {
  const std::int64_t moves = movesAllowed(options);
  std::vector<std::unique_ptr<ReplaySearch>> searches;
  for (unsigned i = 0; i < std::clamp(options.threads, 1u, kMostThreads); ++i) {
    const ReplaySearchOptions one{budget_bytes, intervalsAllowed(options), options.seed + i,
                                  options.deadline};
    searches.push_back(std::make_unique<ReplaySearch>(graph, one));
    searches.back()->startFrom(start);
    if (!searches.back()->feasible()) searches.back()->construct();
  }
  std::vector<std::thread> threads;
  for (std::size_t i = 1; i < searches.size(); ++i) {
    threads.emplace_back([&, i] { improve(*searches[i], moves, bound); });
  }
  improve(*searches[0], moves, bound);
  for (std::thread& thread : threads) thread.join();
  return (*std::min_element(searches.begin(), searches.end(),
                            [](const auto& a, const auto& b) { return a->betterThan(*b); }))
      ->schedule();
}

}  // namespace

PlannerInfo MoccasinLocalPlanner::info() const {
  return {"moccasin-local",
          "own; retention intervals of moccasin2023 section 2, in its staged order (2.3)",
          "A local optimum over all sets of replays; never worse than its greedy start.",
          {{"work", std::to_string(kDefaultMoves),
            "moves tried by each thread; default with a deadline: until then"},
           {"intervals", "[6] 1 to 1000", "copies of a value, the first one included"}}};
}

PlanResult MoccasinLocalPlanner::plan(const Graph& graph, Bytes budget_bytes,
                                      const PlannerOptions& options) const {
  rejectUnknownOptions(options, info());
  intervalsAllowed(options);
  PlanResult best = judged(graph, budget_bytes, keepEverything(graph));
  best.optimal = best.feasible;
  if (best.feasible) return best;
  const bool large = graph.ops.size() > kMostOps;
  const Nanoseconds bound = large ? 0 : recomputeLowerBound(graph, budget_bytes);
  const bool step =
      std::any_of(graph.ops.begin(), graph.ops.end(), [](const Op& op) { return op.backward; });
  if (step && !large) {
    RetentionSearch greedy(graph, budget_bytes, options);
    Schedule start = greedy.result(GreedyPlanner::construct(greedy), "greedy").schedule;
    PlanResult constructed = judged(graph, budget_bytes, std::move(start));
    if (better(constructed, best)) best = std::move(constructed);
  }
  PlanResult found =
      judged(graph, budget_bytes, searchFrom(graph, budget_bytes, options, best.schedule, bound));
  if (better(found, best)) best = std::move(found);
  best.optimal = best.feasible && best.recompute_ns <= bound;
  return best;
}

}  // namespace ebbtide::scheduler
