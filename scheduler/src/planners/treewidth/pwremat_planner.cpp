#include "planners/treewidth/pwremat_planner.hpp"

#include <algorithm>
#include <iterator>

#include "model/planner_options.hpp"
#include "search/replay_machine.hpp"

namespace ebbtide::scheduler {
namespace {

using Node = std::int32_t;  // an op by its place in the spine
using Nodes = std::vector<Node>;

constexpr std::size_t kMostRuns = 4'000'000, kMostRunsPerOp = 400;

// How often a run may be looked at or copied from call to call.
constexpr std::size_t kCopies = 16;

// Part of a path decomposition, seen from one end: `first` is the bag beside the caller's.
struct Range {
  std::int32_t first, step, count;
  std::int32_t bag(std::int32_t i) const { return first + i * step; }
  std::int32_t low() const { return std::min(first, bag(count - 1)); }
  std::int32_t high() const { return std::max(first, bag(count - 1)); }
  Range inner(std::int32_t middle) const { return {first, step, middle}; }
  Range outer(std::int32_t middle) const { return {bag(middle + 1), step, count - middle - 1}; }
};

// Algorithm 3. The paper has PWRemat compute the node before u on the spine, which by the spine's
// added edges takes all nodes up to it. Here a call is told which nodes are read (the goals) and
// leaves out what these do not need: a part of the paper's schedule, within the same bounds. One
// call for u's missing inputs takes the place of the chain of calls in u's tuple.
class Recursion {
 public:
  Recursion(std::vector<Nodes> before, const PathDecomposition& path, std::size_t leaf_bags,
            const WorkLimit& limit)
      : before_(std::move(before)),
        path_(path),
        leaf_bags_(leaf_bags),
        limit_(limit),
        spans_(bagSpans(path, before_.size())),
        known_(before_.size(), 0),
        mark_(before_.size(), 0) {}

  // The runs; beyond the limit they are not complete.
  Nodes run(const Nodes& goals) {
    const auto bags = static_cast<std::int32_t>(path_.bags.size());
    if (bags == 0) return {};
    return compute({0, 1, bags}, goals);
  }
  bool tooLong() const { return work_ / kCopies > limit_.most_runs || limit_.late(); }

 private:
  bool in(const Range& range, Node node) const {
    return range.count > 0 && spans_[node].first <= range.high() &&
           spans_[node].last >= range.low();
  }

  // PWRemat: runs the goals, which are in the range and not known, and leaves them live.
  Nodes compute(const Range& range, const Nodes& goals) {
    if (goals.empty() || tooLong()) return {};
    const int outer_call = call_;
    call_ = ++calls_;
    Nodes needed = goals;
    std::vector<int> outer_marks;
    const auto mark = [&](Node node) {
      outer_marks.push_back(mark_[node]);
      mark_[node] = call_;
    };
    for (Node goal : goals) mark(goal);
    for (std::size_t i = 0; i < needed.size(); ++i) {
      for (Node input : before_[needed[i]]) {
        if (mark_[input] == call_ || known_[input] > 0 || !in(range, input)) continue;
        mark(input);
        needed.push_back(input);
      }
    }
    work_ += needed.size();
    Nodes runs =
        simple(range, needed.size(), goals.back()) ? sorted(needed) : aroundBag(range, goals);
    for (std::size_t i = 0; i < needed.size(); ++i) mark_[needed[i]] = outer_marks[i];
    call_ = outer_call;
    return runs;
  }

  static Nodes sorted(Nodes nodes) {
    std::sort(nodes.begin(), nodes.end());
    return nodes;
  }

  // One node to run, or up to `last` a path, or a leaf.
  bool simple(const Range& range, std::size_t needed, Node last) const {
    if (needed == 1 || range.count <= static_cast<std::int32_t>(leaf_bags_)) return true;
    for (std::int32_t i = range.low(); i <= range.high(); ++i) {
      const Nodes& bag = path_.bags[i];
      if (std::upper_bound(bag.begin(), bag.end(), last) - bag.begin() > 2) return false;
    }
    return true;
  }

  Nodes upTo(const Nodes& bag, Node last) const {
    return Nodes(bag.begin(), std::upper_bound(bag.begin(), bag.end(), last));
  }

  Nodes aroundBag(const Range& range, const Nodes& goals) {
    const Node last = goals.back();
    const std::int32_t low = std::max(range.low(), spans_[last].first);
    const std::int32_t high = std::min(range.high(), spans_[last].last);
    const std::int32_t bag = low + (high - low) / 2;
    const Nodes held = upTo(path_.bags[bag], last);
    const Range left{bag - 1, -1, bag - range.low()}, right{bag + 1, 1, range.high() - bag};
    const std::vector<Nodes> from_left = interleaved(held, left, goals);
    const std::vector<Nodes> from_right = interleaved(held, right, goals);
    Nodes runs;
    for (std::size_t i = 0; i < held.size(); ++i) {
      append(runs, from_left[i]);
      append(runs, from_right[i]);
      if (needs(held[i])) runs.push_back(held[i]);
    }
    return runs;
  }

  bool needs(Node node) const { return mark_[node] == call_ && known_[node] == 0; }

  void append(Nodes& runs, const Nodes& more) {
    runs.insert(runs.end(), more.begin(), more.end());
    work_ += more.size();
  }

  // InterleavedSchedule: for each held node the runs that make what it reads from the range, if the
  // held nodes before it are there. Goals in the range are made for the first held node after them.
  std::vector<Nodes> interleaved(const Nodes& held, const Range& range, const Nodes& goals) {
    std::vector<Nodes> result(held.size());
    if (held.empty() || range.count == 0 || tooLong()) return result;
    const std::int32_t middle = (range.count - 1) / 2;
    const Nodes bag = upTo(path_.bags[range.bag(middle)], held.back());
    // X' and the middle bag; a held node after all of these waits for the lower part.
    Nodes upper;
    if (!bag.empty()) {
      std::set_union(held.begin(), std::lower_bound(held.begin(), held.end(), bag.back()),
                     bag.begin(), bag.end(), std::back_inserter(upper));
    }
    const std::vector<Nodes> from_inner = innerRuns(upper, range.inner(middle), goals);
    const std::vector<Nodes> from_outer = interleaved(bag, range.outer(middle), goals);
    Nodes runs;
    std::size_t next_held = 0, next_bag = 0;
    for (std::size_t i = 0; i < upper.size(); ++i) {
      append(runs, from_inner[i]);
      if (next_bag < bag.size() && bag[next_bag] == upper[i]) append(runs, from_outer[next_bag++]);
      if (next_held < held.size() && held[next_held] == upper[i]) {
        result[next_held++].swap(runs);
      } else if (needs(upper[i])) {
        runs.push_back(upper[i]);
      }
    }
    const Nodes rest(held.begin() + static_cast<std::ptrdiff_t>(next_held), held.end());
    for (Node node : upper) ++known_[node];
    Nodes later;
    for (Node goal : goals) {
      if (upper.empty() || goal > upper.back()) later.push_back(goal);
    }
    const std::vector<Nodes> from_lower = interleaved(rest, range.inner(middle), later);
    for (Node node : upper) --known_[node];
    for (std::size_t i = 0; i < rest.size(); ++i) {
      append(result[next_held + i], i == 0 ? runs : Nodes{});
      append(result[next_held + i], from_lower[i]);
    }
    return result;
  }

  std::vector<Nodes> innerRuns(const Nodes& upper, const Range& range, const Nodes& goals) {
    std::vector<Nodes> result(upper.size());
    auto goal = goals.begin();
    for (std::size_t i = 0; i < upper.size(); ++i) {
      Nodes wanted;
      const auto want = [&](Node node) {
        if (known_[node] == 0 && in(range, node)) wanted.push_back(node);
      };
      for (; goal != goals.end() && *goal < upper[i]; ++goal) want(*goal);
      if (goal != goals.end() && *goal == upper[i]) ++goal;
      if (needs(upper[i])) {
        for (Node input : before_[upper[i]]) want(input);
      }
      wanted = sorted(std::move(wanted));
      wanted.erase(std::unique(wanted.begin(), wanted.end()), wanted.end());
      result[i] = compute(range, wanted);
      ++known_[upper[i]];
    }
    for (Node node : upper) --known_[node];
    return result;
  }

  std::vector<Nodes> before_;
  const PathDecomposition& path_;
  std::size_t leaf_bags_;
  WorkLimit limit_;
  std::vector<BagSpan> spans_;
  std::vector<int> known_;  // per node: calls that know it
  std::vector<int> mark_;   // per node: the innermost call that needs it
  int call_ = 0, calls_ = 0;
  std::size_t work_ = 0;
};

bool isSpine(const OpOrder& order) {
  for (std::size_t id = 1; id < order.size(); ++id) {
    const auto& before = order.before[id];
    if (before.empty() || before.back() != static_cast<OpId>(id) - 1) return false;
  }
  return true;
}

}  // namespace

PwRemat::PwRemat(const Graph& graph)
    : graph_(graph), order_(graph), path_(pathDecomposition(order_.neighbours())) {
  if (isSpine(order_)) {
    for (std::size_t id = 0; id < order_.size(); ++id) spine_.push_back(static_cast<OpId>(id));
  } else {
    spine_ = addSpine(order_.before, path_);
  }
}

std::optional<Schedule> PwRemat::schedule(std::size_t leaf_bags, const WorkLimit& limit) const {
  std::vector<Node> place(order_.size());
  for (std::size_t i = 0; i < spine_.size(); ++i) place[spine_[i]] = static_cast<Node>(i);
  const auto places = [&](const std::vector<OpId>& ops) {
    Nodes nodes;
    for (OpId op : ops) nodes.push_back(place[op]);
    std::sort(nodes.begin(), nodes.end());
    return nodes;
  };
  std::vector<Nodes> before(order_.size());
  for (std::size_t id = 0; id < order_.size(); ++id) before[place[id]] = places(order_.before[id]);
  PathDecomposition path;
  for (const auto& bag : path_.bags) path.bags.push_back(places(bag));
  Recursion recursion(std::move(before), path, leaf_bags, limit);
  const Nodes runs = recursion.run(places(order_.targets));
  if (recursion.tooLong()) return std::nullopt;
  ReplayMachine machine(graph_);
  for (Node node : runs) machine.run(spine_[node]);
  return machine.finish();
}

PlannerInfo PwRematPlanner::info() const {
  return {"pwremat", "kumar2019 section 5, appendix A, Algorithms 2 and 3",
          "Polylogarithmic bytes and recompute time in the paper's model for bounded pathwidth "
          "(Theorem 7); the path decomposition is exact up to 15 ops, else heuristic."};
}

PlanResult PwRematPlanner::plan(const Graph& graph, Bytes budget_bytes,
                                const PlannerOptions& options) const {
  rejectUnknownOptions(options, info());
  PlanChoice choice(graph, budget_bytes, options, info().name);
  if (choice.feasible() || choice.late()) return choice.take();
  const PwRemat remat(graph);
  const WorkLimit limit{
      std::min(kMostRuns, kMostRunsPerOp * std::max<std::size_t>(graph.ops.size(), 100)), options};
  for (std::size_t leaf = 1; !choice.late(); leaf *= 2) {
    auto schedule = remat.schedule(leaf, limit);
    if (!schedule) continue;
    choice.consider(std::move(*schedule));
    break;
  }
  return choice.take();
}

}  // namespace ebbtide::scheduler
