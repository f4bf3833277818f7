#include "planners/treewidth/twremat_planner.hpp"

#include <algorithm>

#include "model/planner_options.hpp"
#include "search/replay_machine.hpp"

namespace ebbtide::scheduler {
namespace {

// A schedule of more runs than this serves nobody: twremat then stops early too.
constexpr std::size_t kMostRuns = 4'000'000, kMostRunsPerOp = 400;

// One walk through the recursion of Algorithm 1. A node outside a part is in memory when the part's
// turn comes, or is not needed.
class Walk {
 public:
  Walk(const Graph& graph, const OpOrder& order, const SeparatorTree& separators, std::size_t k,
       const WorkLimit& limit)
      : order_(order),
        separators_(separators),
        k_(k),
        limit_(limit),
        machine_(graph),
        level_(order.size(), 0) {}

  std::optional<Schedule> run() {
    if (!separators_.empty()) compute(0, order_.targets, 1);
    if (tooLong()) return std::nullopt;
    return machine_.finish();
  }

 private:
  bool tooLong() const { return machine_.runs() > limit_.most_runs || limit_.late(); }

  // Runs what comes before the wanted nodes within the part, then these. level_ marks what is
  // needed by the deepest call that needs it.
  void compute(std::int32_t part, const std::vector<OpId>& wanted, std::int32_t level) {
    if (wanted.empty() || tooLong()) return;
    std::vector<OpId> needed = wanted;
    std::vector<std::int32_t> outer;
    for (std::size_t i = 0; i < needed.size(); ++i) {
      outer.push_back(level_[needed[i]]);
      level_[needed[i]] = level;
    }
    for (std::size_t i = 0; i < needed.size(); ++i) {
      for (OpId before : order_.before[needed[i]]) {
        if (level_[before] == level || !separators_.within(part, before)) continue;
        if (machine_.ran(before) && !machine_.repeatable(before)) continue;
        needed.push_back(before);
        outer.push_back(level_[before]);
        level_[before] = level;
      }
    }
    if (separators_.part(part).bags < k_ || separators_.part(part).children.empty()) {
      std::vector<OpId> sorted = needed;
      std::sort(sorted.begin(), sorted.end());
      for (OpId op : sorted) machine_.run(op);
    } else {
      split(part, wanted, level);
    }
    for (std::size_t i = 0; i < needed.size(); ++i) level_[needed[i]] = outer[i];
  }

  void split(std::int32_t part, const std::vector<OpId>& wanted, std::int32_t level) {
    for (OpId op : separators_.part(part).separator) {
      if (level_[op] != level) continue;
      for (std::int32_t child : separators_.part(part).children) {
        compute(child, of(child, order_.before[op]), level + 1);
      }
      machine_.run(op);
    }
    for (std::int32_t child : separators_.part(part).children) {
      compute(child, of(child, wanted), level + 1);
    }
  }

  std::vector<OpId> of(std::int32_t part, const std::vector<OpId>& ops) const {
    std::vector<OpId> inside;
    for (OpId op : ops) {
      const bool done = machine_.ran(op) && !machine_.repeatable(op);
      if (separators_.within(part, op) && !done) inside.push_back(op);
    }
    return inside;
  }

  const OpOrder& order_;
  const SeparatorTree& separators_;
  std::size_t k_;
  WorkLimit limit_;
  ReplayMachine machine_;
  std::vector<std::int32_t> level_;
};

}  // namespace

TwRemat::TwRemat(const Graph& graph)
    : graph_(graph),
      order_(graph),
      decomposition_(treeDecomposition(order_.neighbours())),
      separators_(decomposition_) {}

std::optional<Schedule> TwRemat::schedule(std::size_t k, const WorkLimit& limit) const {
  return Walk(graph_, order_, separators_, k, limit).run();
}

PlannerInfo TwRematPlanner::info() const {
  if (!stops_early_) {
    return {"twremat", "kumar2019 section 3, Algorithm 1",
            "O((M_in + w M_max) log n) bytes in the paper's model, for a tree decomposition of "
            "width w: exact up to 15 ops, else by least fill-in."};
  }
  return {"twremat-k",
          "kumar2019 section 4.3",
          "Trades recompute time for memory from Algorithm 1 (k = 1) to keeping everything.",
          {{"k", "[0] or more",
            "bags of a part below which it is computed in program order; 0: the least time within "
            "the budget"}}};
}

PlanResult TwRematPlanner::plan(const Graph& graph, Bytes budget_bytes,
                                const PlannerOptions& options) const {
  rejectUnknownOptions(options, info());
  const auto fixed_k = static_cast<std::size_t>(integerOption(options, "k", stops_early_ ? 0 : 1));
  PlanChoice choice(graph, budget_bytes, options, info().name);
  if (choice.feasible() || choice.late()) return choice.take();
  const TwRemat remat(graph);
  const WorkLimit limit{
      std::min(kMostRuns, kMostRunsPerOp * std::max<std::size_t>(graph.ops.size(), 100)), options};
  std::size_t k = std::max<std::size_t>(fixed_k, 1);
  // Where the whole recursion takes too long, as much of it as does not.
  auto schedule = remat.schedule(k, limit);
  while (!schedule && !choice.late()) schedule = remat.schedule(k *= 2, limit);
  if (schedule) choice.consider(std::move(*schedule));
  if (fixed_k != 0 || !choice.feasible()) return choice.take();
  // A larger k takes less time, and more memory: k * low fits, k * high may not.
  std::size_t low = 0, high = 1;
  while (k << high <= remat.bags()) ++high;
  while (high - low > 1 && !choice.late()) {
    const std::size_t middle = (low + high) / 2;
    auto larger = remat.schedule(k << middle, limit);
    const Bytes peak = larger ? choice.consider(std::move(*larger)) : kNone;
    (peak != kNone && peak <= budget_bytes ? low : high) = middle;
  }
  return choice.take();
}

}  // namespace ebbtide::scheduler
