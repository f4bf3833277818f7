// TimeRelaxation: a linear program whose optimum is a bound below the time of all replays.
//
// Unlike CheckmateModel it is a relaxation of every legal schedule without offload, also of those
// that replay an op several times between two first runs, or in another order; in the model that
// simulate() judges by, of recorded programs and of papers alike. At *events*, first runs whose
// order no schedule can change, what is live must fit; between them, what a replay reads and makes:
//
//   event k-1 ──── interval k ──── event k
//   P(k-1,v)       N(k,j)          P(k,v)      P: v is live during the event; N: j is replayed
//
//   P(k,v) ≤ P(k-1,v) + N(k,p)     p makes v; N costs p's duration
//   N(k,j) ≤ P(k-1,i) + N(k,q)     j reads i, which q makes; likewise each first run after event
//   k-1 A(k,v) ≥ P(k-1,v) + P(k,v) - 1 - N(k,p)     v lives throughout the interval
//
// In program order every op is an event, and in a recorded step there is no N where no replay may
// come (Graph::mayReplayBefore()). Where any order will do (Graph::any_order) events are a longest
// chain of ops; each needs the one before.
#pragma once

#include "ebbtide/scheduler/graph.hpp"
#include "solver/linear_program.hpp"

namespace ebbtide::scheduler {

struct TimeRelaxation {
  // `whole`: N is integer, so that the optimum is a tighter bound.
  TimeRelaxation(const Graph& graph, Bytes budget_bytes, bool whole);

  LinearProgram program;
  double nanoseconds_per_cost = 1;
  bool exact_costs = false;  // each N costs a whole number of units

  // What a bound of the program's optimum says of any schedule; at least 0.
  Nanoseconds timeOf(double bound) const;

  // Ops times values, as far as HiGHS takes seconds.
  static constexpr std::size_t kMostSize = 40'000;
  static std::size_t size(const Graph& graph) { return graph.ops.size() * graph.values.size(); }
};

}  // namespace ebbtide::scheduler
