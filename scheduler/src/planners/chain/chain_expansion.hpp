// From the schedules of a graph's chains to a schedule of the graph.
#pragma once

#include <vector>

#include "ebbtide/scheduler/schedule.hpp"
#include "planners/chain/chain_contraction.hpp"
#include "search/schedule_writer.hpp"

namespace ebbtide::scheduler {

class ChainExpansion {
 public:
  // Both must outlive it.
  ChainExpansion(const Graph& graph, const std::vector<ChainContraction>& chains);

  // Legal for any schedules, one per chain: the program's own order of first runs is kept, each
  // chain's replays come before the events that they serve, and a value that is missing then is
  // recomputed on the spot. Each copy is dropped after its last reader.
  Schedule expand(const std::vector<ChainSchedule>& schedules);

 private:
  struct Place {  // of an op
    std::int32_t chain = kNone;
    std::int32_t stage = kNone;
    bool ends_stage = false;  // the last op of the stage's forward or backward
  };
  void reset();
  void place(const ChainStage& stage, std::int32_t chain, std::int32_t index);
  void visit(OpId op, const std::vector<ChainSchedule>& schedules);
  void serve(const ChainStep& step, std::int32_t chain);
  void endForward(const ChainStep& step, std::int32_t chain);
  void endBackward(std::int32_t stage, std::int32_t chain);
  void replayMissing(OpId op);
  void forget(ValueId value);
  bool missing(ValueId value) const;

  const Graph& graph_;
  const std::vector<ChainContraction>& chains_;
  std::vector<Place> place_;
  std::vector<OpId> last_need_;  // per value: the last op that reads it, itself or by a replay

  std::vector<std::size_t> next_step_;        // per chain
  std::vector<std::vector<bool>> saved_now_;  // per chain and stage: is ā held?
  ScheduleWriter writer_;
};

}  // namespace ebbtide::scheduler
