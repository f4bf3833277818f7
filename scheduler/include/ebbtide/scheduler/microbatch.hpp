// Microbatch: what one microbatch of a stage does in a recorded step, cut out of the step's graph.
//
//   step:         F0 F0 F1 F1 ... B0 B0 F2 F2 B1 B1 ...
//   microbatch 1:       F1 F1 | held |        B1 B1
//
// Between its forward and its backward other microbatches run: an op `held` stands for them, and
// what is live there is what the microbatch takes of the others' memory. Bytes are those above
// MicrobatchedStep::baseBytes().
#pragma once

#include <cstddef>
#include <vector>

#include "ebbtide/scheduler/graph.hpp"
#include "ebbtide/scheduler/pipeline_job.hpp"
#include "ebbtide/scheduler/schedule.hpp"

namespace ebbtide::scheduler {

// Ops of a step's graph, rising. `weight_backward`: where gradients of weights come apart.
struct MicrobatchOps {
  std::vector<OpId> forward, backward, weight_backward = {};
};

// A step's graph, and what all its microbatches ask of it.
class MicrobatchedStep {
 public:
  // Throws std::invalid_argument where the ops are none of the step's, out of order, or no forward
  // pass with a backward pass after it. The graph must pass checkGraph() and outlive this.
  MicrobatchedStep(const Graph& graph, std::vector<MicrobatchOps> microbatches);

  const Graph& graph() const { return graph_; }
  const std::vector<MicrobatchOps>& microbatches() const { return microbatches_; }
  // That no schedule changes, at the most of the moments when an action begins.
  Bytes baseBytes() const { return base_bytes_; }
  const std::vector<OpId>& readers(ValueId value) const { return readers_[value]; }  // rising

 private:
  const Graph& graph_;
  std::vector<MicrobatchOps> microbatches_;
  Bytes base_bytes_ = 0;
  std::vector<std::vector<OpId>> readers_;  // of each value
};

class Microbatch {
 public:
  Microbatch(const MicrobatchedStep& step, std::size_t number);

  const Graph& graph() const { return graph_; }
  // Positions in graph(); `parted` comes between the two parts of the backward pass, if there are.
  OpId held() const { return held_; }
  OpId parted() const { return parted_; }  // kNone: the backward pass is one

  OpId stepOp(OpId op) const { return step_op_[op]; }  // kNone: held, parted
  ValueId stepValue(ValueId value) const { return values_[value]; }

  // The same ops on the same values? Then one's schedules are the other's, too. What ops of others
  // do with the values does not matter.
  bool isLike(const Microbatch& other) const;
  // One that stands for both: what runs again in either, the larger of their bytes.
  void join(const Microbatch& other);
  // Leaves to others what the other one, which is like it, leaves to them.
  void pinAs(const Microbatch& other);

  // Of a legal schedule of graph(), as simulate() says.
  StagePoint pointOf(const Schedule& schedule) const;
  Bytes weightHeldBytes(const Schedule& schedule) const;  // at `parted`

 private:
  void placeOps(const MicrobatchedStep& step, const MicrobatchOps& ops);
  void appendAction(const MicrobatchedStep& step, const std::vector<OpId>& ops);
  OpId appendPause(const char* name, OpId begins_at);
  void nameValues(const Graph& step);
  void addValues(const MicrobatchedStep& step);
  void pinBuffers();
  void pin(Value& value);
  OpId placeOf(OpId step_op) const;
  OpId localOf(OpId step_op) const;

  Graph graph_;
  OpId held_ = kNone, parted_ = kNone;
  std::vector<OpId> step_op_;    // per op
  std::vector<OpId> begins_at_;  // per op: the step's from which on it is the one at hand
  std::vector<ValueId> values_;  // the step's, per value
};

// The whole step's schedule where each microbatch runs by its own. Ops of none are kept as they
// are. `schedules[i]` is one of `microbatches[i]`'s graph, or of one that is like it. Throws
// std::logic_error where a value is gone that an op reads, and nothing makes it again.
Schedule composeStep(const Graph& step, const std::vector<const Microbatch*>& microbatches,
                     const std::vector<const Schedule*>& schedules);

}  // namespace ebbtide::scheduler
