#include "planners/lower_sets/lower_set_dp.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>

#include "random_problems.hpp"

namespace ebbtide::scheduler {
namespace {

using Mask = std::uint32_t;

// Formulas (1) and (2) of kusumoto2019 by their definitions, on bit masks.
class PaperModel {
 public:
  explicit PaperModel(const LowerSetProblem& problem)
      : problem_(problem), nodes_(problem.time.size()) {}

  Mask all() const { return (Mask{1} << nodes_) - 1; }
  bool has(Mask set, std::size_t v) const { return (set >> v & 1) != 0; }

  Mask after(Mask set) const {  // d+
    Mask result = 0;
    for (std::size_t v = 0; v < nodes_; ++v) {
      if (!has(set, v)) continue;
      for (std::int32_t w : problem_.next[v]) result |= Mask{1} << w;
    }
    return result;
  }
  Mask before(Mask set) const {  // d-
    Mask result = 0;
    for (std::size_t v = 0; v < nodes_; ++v) {
      for (std::int32_t w : problem_.next[v]) {
        if (has(set, static_cast<std::size_t>(w))) result |= Mask{1} << v;
      }
    }
    return result;
  }
  Mask boundary(Mask lower) const { return before(all() & ~lower) & lower; }
  std::int64_t sum(const std::vector<std::int64_t>& weight, Mask set) const {
    std::int64_t total = 0;
    for (std::size_t v = 0; v < nodes_; ++v) total += has(set, v) ? weight[v] : 0;
    return total;
  }

  std::int64_t timeOf(Mask set) const { return sum(problem_.time, set); }
  std::int64_t lastTime(const LowerSetPlan& plan) const {  // T(V_k)
    std::int64_t total = 0;
    for (std::size_t v = 0; v < nodes_; ++v) {
      total += plan.segment[v] + 1 == plan.segments ? problem_.time[v] : 0;
    }
    return total;
  }
  std::int64_t time(const std::vector<Mask>& sequence) const {
    std::int64_t total = 0;
    Mask last = 0;
    for (Mask lower : sequence) {
      total += sum(problem_.time, lower & ~last & ~boundary(lower));
      last = lower;
    }
    return total;
  }
  std::int64_t peak(const std::vector<Mask>& sequence) const {
    std::int64_t largest = 0;
    Mask last = 0, cached = 0;
    for (Mask lower : sequence) {
      const auto& memory = problem_.memory;
      largest = std::max(largest, sum(memory, cached) + 2 * sum(memory, lower & ~last) +
                                      sum(memory, after(lower) & ~lower) +
                                      sum(memory, before(after(lower)) & ~lower));
      cached |= boundary(lower);
      last = lower;
    }
    return largest;
  }

  // Every lower set but the empty one.
  std::vector<Mask> lowerSets() const {
    std::vector<Mask> family;
    for (Mask set = 1; set <= all(); ++set) {
      if ((before(set) & ~set) == 0) family.push_back(set);
    }
    return family;
  }
  std::vector<Mask> pruned() const {  // L^v for every v, and V
    std::vector<Mask> family;
    for (std::size_t v = 0; v < nodes_; ++v) {
      Mask lower = Mask{1} << v;
      for (Mask grown = 0; grown != lower;) {
        grown = lower;
        lower |= before(lower);
      }
      family.push_back(lower);
    }
    family.push_back(all());
    std::sort(family.begin(), family.end());
    family.erase(std::unique(family.begin(), family.end()), family.end());
    return family;
  }

  // Every increasing sequence of the family's sets that ends with V; none if there are too many.
  std::vector<std::vector<Mask>> sequences(const std::vector<Mask>& family) const {
    std::vector<std::vector<Mask>> found;
    std::vector<Mask> prefix;
    extend(family, prefix, found);
    if (found.size() > kMostSequences) found.clear();
    return found;
  }

  static constexpr std::size_t kMostSequences = 3000;

 private:
  void extend(const std::vector<Mask>& family, std::vector<Mask>& prefix,
              std::vector<std::vector<Mask>>& found) const {
    const Mask last = prefix.empty() ? 0 : prefix.back();
    if (found.size() > kMostSequences) return;
    if (last == all()) {
      found.push_back(prefix);
      return;
    }
    for (Mask lower : family) {
      if (lower == last || (last & ~lower) != 0) continue;
      prefix.push_back(lower);
      extend(family, prefix, found);
      prefix.pop_back();
    }
  }

  const LowerSetProblem& problem_;
  std::size_t nodes_;
};

void expectOptimal(const PaperModel& model, const LowerSetSolver& solver,
                   const std::vector<std::vector<Mask>>& sequences, std::uint64_t seed) {
  std::int64_t smallest = std::numeric_limits<std::int64_t>::max();
  for (const auto& sequence : sequences) smallest = std::min(smallest, model.peak(sequence));
  EXPECT_EQ(solver.smallestBudget(), smallest) << seed;
  for (std::int64_t budget = smallest - 1; budget < smallest + 40; budget += 3) {
    std::int64_t least = std::numeric_limits<std::int64_t>::max(), most = -1, stays = least;
    for (const auto& sequence : sequences) {
      if (model.peak(sequence) > budget) continue;
      least = std::min(least, model.time(sequence));
      most = std::max(most, model.time(sequence));
      const Mask before = sequence.size() < 2 ? 0 : sequence[sequence.size() - 2];
      stays = std::min(stays, model.time(sequence) - model.timeOf(model.all() & ~before));
    }
    const LowerSetPlan fine = solver.solve(budget, LowerSetGoal::kLeastTime);
    const LowerSetPlan coarse = solver.solve(budget, LowerSetGoal::kMostTime);
    const LowerSetPlan last = solver.solve(budget, LowerSetGoal::kLeastTime, true);
    ASSERT_EQ(fine.feasible, most >= 0) << seed << " " << budget;
    ASSERT_EQ(coarse.feasible, most >= 0) << seed << " " << budget;
    ASSERT_EQ(last.feasible, most >= 0) << seed << " " << budget;
    if (most < 0) continue;
    EXPECT_EQ(fine.time, least) << seed << " " << budget;
    EXPECT_EQ(coarse.time, most) << seed << " " << budget;
    EXPECT_EQ(last.time - model.lastTime(last), stays) << seed << " " << budget;
    EXPECT_LE(std::max({fine.peak, coarse.peak, last.peak}), budget);
  }
}

TEST(LowerSets, ChainByHand) {
  // 0 -> 1 -> 2, all T = 1, M = 1. As one segment: 2 * 3 = 6 bytes, all recomputed: T = 3.
  // As {0}, {0,1}, V: caches 0 and 1. M(1) = 2 + M({1}) + 0 (d-(d+) \ L is empty) = 3,
  // M(2) = 1 + 2 + 1 = 4, M(3) = 2 + 2 = 4; T = 1 (node 2). As {0,1}, V: M(1) = 4 + 1 = 5, T = 2.
  const LowerSetProblem problem{{1, 1, 1}, {1, 1, 1}, {{1}, {2}, {}}};
  const LowerSetSolver solver(problem);
  EXPECT_EQ(solver.smallestBudget(), 4);
  EXPECT_FALSE(solver.solve(3, LowerSetGoal::kLeastTime).feasible);
  const LowerSetPlan fine = solver.solve(4, LowerSetGoal::kLeastTime);
  EXPECT_EQ(fine.time, 1);
  EXPECT_EQ(fine.peak, 4);
  EXPECT_EQ(fine.cached, (std::vector<bool>{true, true, false}));
  EXPECT_EQ(fine.segment, (std::vector<std::int32_t>{0, 1, 2}));
  EXPECT_EQ(fine.segments, 3);
  EXPECT_EQ(solver.solve(6, LowerSetGoal::kMostTime).time, 3);
  EXPECT_EQ(solver.solve(5, LowerSetGoal::kMostTime).time, 2);
}

TEST(LowerSets, AgreeWithAllSequences) {
  for (std::uint64_t seed = 0; seed < 150; ++seed) {
    const LowerSetProblem problem = randomProblem(seed, 1 + seed % 9);
    const PaperModel model(problem);
    expectOptimal(model, LowerSetSolver(problem), model.sequences(model.pruned()), seed);
  }
}

TEST(LowerSets, OfWhichAllAreOptimalAmongAllSequences) {
  std::size_t tried = 0;
  for (std::uint64_t seed = 0; seed < 150; ++seed) {
    const LowerSetProblem problem = randomProblem(seed, 1 + seed % 9, seed % 3 + 1);
    const PaperModel model(problem);
    const auto family = allLowerSets(problem, 1000, [] { return false; });
    ASSERT_TRUE(family);
    EXPECT_EQ(family->size(), model.lowerSets().size() + 1);  // the empty one
    const auto sequences = model.sequences(model.lowerSets());
    if (sequences.empty()) continue;
    expectOptimal(model, LowerSetSolver(problem, *family), sequences, seed);
    ++tried;
  }
  EXPECT_GT(tried, 75u);
}

// n nodes without an edge: every set is a lower one.
TEST(LowerSets, AreNotEnumeratedBeyondTheMost) {
  LowerSetProblem problem;
  problem.time.assign(10, 1);
  problem.memory.assign(10, 1);
  problem.next.resize(10);
  const auto never = [] { return false; };
  ASSERT_TRUE(allLowerSets(problem, 1024, never));
  EXPECT_EQ(allLowerSets(problem, 1024, never)->size(), 1024u);
  EXPECT_FALSE(allLowerSets(problem, 1023, never));
  EXPECT_FALSE(allLowerSets(problem, 1024, [] { return true; }));
}

TEST(LowerSets, LimitsCostQualityOnly) {
  const LowerSetProblem problem = randomProblem(7, 200);
  const LowerSetSolver full(problem);
  const LowerSetSolver limited(problem, {.time_slots = 32, .nearest = 8, .narrow = 10});
  const std::int64_t budget = limited.smallestBudget() * 5 / 4;
  const LowerSetPlan best = full.solve(budget, LowerSetGoal::kLeastTime);
  const LowerSetPlan fast = limited.solve(budget, LowerSetGoal::kLeastTime);
  ASSERT_TRUE(best.feasible);
  ASSERT_TRUE(fast.feasible);
  EXPECT_LE(best.time, fast.time);
  EXPECT_LE(fast.peak, budget);
  EXPECT_LE(full.smallestBudget(), limited.smallestBudget());
}

// A chain of 100 nodes of 1 byte. Its 100 sets are built in 100 questions; after the 150th half of
// them are finished. Then V alone is left (and one more question ends the search for what extends
// what), whose peak is 3 x 100 (it has no node around it); any other set of the chain has the next
// node around it, so the family's largest peak is 301.
TEST(LowerSetSolver, ADeadlineWhileTheFamilyIsFinishedLeavesTheWholeAlone) {
  LowerSetProblem problem;
  for (std::int32_t v = 0; v < 100; ++v) {
    problem.time.push_back(1);
    problem.memory.push_back(1);
    problem.next.push_back(v < 99 ? std::vector<std::int32_t>{v + 1} : std::vector<std::int32_t>{});
  }
  EXPECT_EQ(LowerSetSolver(problem).largestPeak(), 301);
  int questions = 0;
  const LowerSetLimits limits{.late = [&questions] { return ++questions > 150; }};
  EXPECT_EQ(LowerSetSolver(problem, limits).largestPeak(), 300);
  EXPECT_EQ(questions, 152);
}

}  // namespace
}  // namespace ebbtide::scheduler
