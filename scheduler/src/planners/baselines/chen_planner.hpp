// "chen": segments of Chen and others, "Training Deep Nets with Sublinear Memory Cost", 2016, as
// kusumoto2019, sections 2 and 5, compares with: the forward pass is cut at articulation points,
// what crosses a cut is kept, the rest recomputed a segment at a time.
#pragma once

#include "ebbtide/scheduler/planner.hpp"
#include "search/retention_search.hpp"

namespace ebbtide::scheduler {

class ChenPlanner : public Planner {
 public:
  PlannerInfo info() const override;
  // Numbers of segments around the square root of the ops; of those within the budget the one of
  // least recompute time.
  PlanResult plan(const Graph& graph, Bytes budget_bytes,
                  const PlannerOptions& options) const override;
};

// Where a phase of a graph may be cut, and what its segments are.
class ChenSegments {
 public:
  ChenSegments(const Graph& graph, const RetentionSearch& search, const ForwardPhase& phase);

  std::size_t candidates() const { return candidates_.size(); }
  // Ops after which to cut: a segment ends at the first candidate where it holds more than one of
  // `segments` equal shares of the bytes that backward reads.
  std::vector<OpId> cuts(std::size_t segments) const;
  // Keeps what an op after a cut reads from before it, nothing else of the phase, or else, with
  // `keep_last`, what the last segment makes: its backward comes at once.
  void keepAcross(const std::vector<OpId>& cuts, bool keep_last, Retention& retention) const;

 private:
  const Graph& graph_;
  ForwardPhase phase_;
  std::vector<OpId> candidates_;
  std::vector<Bytes> saved_;  // per op of the phase: of its outputs
  std::vector<OpId> last_;    // per value made in the phase: last reader in it
};

}  // namespace ebbtide::scheduler
