// StagedRuns: which runs a schedule in stages may hold (the frontier-advancing stages of Jain et
// al. 2020, section 4, which moccasin2023, section 2.3, keeps): stage t ends with the first run of
// op t, before which each earlier op is replayed at most once, in program order.
//
//   stage 0 | stage 1  | stage 2    | …
//   [0]     | 0? [1]   | 0? 1? [2]  |        [t]: first run
//
// Also how long values can matter, so that a model in stages need not look further.
#pragma once

#include <vector>

#include "ebbtide/scheduler/graph.hpp"
#include "ebbtide/scheduler/schedule.hpp"
#include "search/replay_timeline.hpp"

namespace ebbtide::scheduler {

class StagedRuns {
 public:
  // The graph must pass checkGraph() and outlive it.
  explicit StagedRuns(const Graph& graph);

  // May `op` run in `stage`? A replay of a value that the program holds is of no use.
  bool may(OpId stage, OpId op) const {
    return stage == op || (stage > replay_from_[op] && stage <= replay_until_[op] && open_[stage]);
  }
  // The last stage in which some run may read the value; kNone: none.
  OpId neededUntil(ValueId value) const { return needed_until_[value]; }
  // The last stage through whose end the program itself holds the first copy; kNone: none.
  OpId heldUntil(ValueId value) const { return held_until_[value]; }
  const std::vector<OpId>& readers(ValueId value) const { return readers_[value]; }

  // The schedule of these replays, each of a run that may be; copies live from the run that makes
  // them to the last one that reads them. A replay whose inputs have no copy is left out.
  Schedule schedule(std::vector<RunKey> replays) const;
  // The replays of a schedule by stage, in order. Empty where one comes twice in a stage or where
  // it may not.
  std::vector<RunKey> replaysOf(const Schedule& schedule) const;

 private:
  void setHeld();
  void setNeeds();

  const Graph& graph_;
  std::vector<bool> open_;                        // per stage: may it hold replays?
  std::vector<std::vector<OpId>> readers_;        // per value, in program order
  std::vector<OpId> needed_until_, held_until_;   // per value
  std::vector<OpId> replay_from_, replay_until_;  // per op: after the one, up to the other
};

}  // namespace ebbtide::scheduler
