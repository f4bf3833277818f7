// Graph: what planners see of one training step.
//
// Ops are in program order and cover the whole step: forward ops, backward events (a node of the
// autograd graph that reads its saved values), the optimizer's tail. Eager code cannot be
// reordered, so every schedule runs each op for the first time in this order.
//
//   op:        0     1     2     3      4       5       6
//              fwd   fwd   fwd   fwd    bwd     bwd     bwd
//   value 0:   [born .... last_reference]                      the program lets go after op 2
//                                     reads ..... use ...      a backward event reads it at op 6
//
// A graph that is kept (retain_graph; zero bubble, where the weights' gradients come long after the
// inputs') lets go of what it saved when it goes, not when that was read:
//
//   value 0, never made again:  [born ........ use ~~~~~~~~ saved_last]
//   value 0, made again:        [born .]     [replay, use]
//
// Between its first runs a schedule may run ops again. In a recorded step it may do so in two
// places alone, since eager code runs its forward pass without a stop: where a node of the autograd
// graph reads its saved values, and where the program waits for a message of another rank. So after
// a replay the next first run is that of a backward op that reads something or of an op that waits.
//
//   op:        0  1  2 | 3  4  5 | 6  7  8 | 9   10 11 12     two microbatches
//              forward | backward| forward |wait| backward
//   replays:           |^  ^  ^  |         |^   |^  ^  ^      before these first runs
//
// Replays before an op that waits run while the message is under way.
//
// Memory while op i runs = fixed_bytes[i] + every managed value live at i + a replay's own extras.
#pragma once

#include <string>
#include <vector>

#include "ebbtide/scheduler/units.hpp"

namespace ebbtide::scheduler {

struct Op {
  std::string name = {};
  Nanoseconds duration_ns = 0;
  Bytes workspace_bytes = 0;  // scratch of one replay beyond its outputs; not of the first run
  Bytes fixed_bytes = 0;      // largest live bytes during this op that no schedule can change
  bool rerunnable = false;    // may be run a second time
  bool backward = false;      // a backward event; never rerunnable
  // Stands for a receive that the program has asked for and now waits for. Reads and makes nothing,
  // is not rerunnable and no backward event.
  bool waits = false;
  std::vector<ValueId> inputs = {};   // distinct; all must be live when the op runs
  std::vector<ValueId> outputs = {};  // values born here
  // Of fixed_bytes what is live when the op begins: replays that serve it run then. kNone: all.
  Bytes fixed_at_start = kNone;

  Bytes fixedAtStart() const { return fixed_at_start == kNone ? fixed_bytes : fixed_at_start; }
};

struct Value {
  Bytes bytes = 0;
  OpId producer = kNone;  // kNone: a graph input, live from the step's start
  // Last op during which the program itself holds the first copy; kNone: not beyond birth.
  OpId last_reference = kNone;
  OpId overwritten_by = kNone;     // op that writes a new epoch over the first copy, which ends it
  ValueId previous_epoch = kNone;  // value whose bytes this one takes over in place (same storage)
  bool pinned = false;  // free to keep: a parameter or another buffer counted in fixed_bytes
  // Last op during which saved tensors hold a first copy that the schedule has dropped, since their
  // graph is kept and may be run backward again; but not if its producer runs again, in whatever
  // place: then it may be dropped at any time. kNone: nobody holds it beyond its last read.
  OpId saved_last = kNone;
};

struct Graph {
  std::vector<Op> ops;
  std::vector<Value> values;
  // Rules of a paper's model in place of a recorded program's. Ops are listed in some topological
  // order either way.
  //   any_order: first runs come in any order that finds their inputs live. No fixed bytes, natural
  //     lives or overwriting then (checkGraph).
  //   lazy_outputs: an output that the schedule drops right after a run was never made by it and
  //     takes no bytes, as in rotor2024, Definition 3.3, where a forward op saves its inner values
  //     or does not.
  bool any_order = false;
  bool lazy_outputs = false;

  Bytes totalValueBytes() const;
  Nanoseconds totalDurationNs() const;
  // Does the first run of the op find this input with the program itself, whatever the schedule
  // dropped? Not if it is a backward event: that reads through the schedule.
  bool programServes(OpId op, ValueId input) const {
    return !ops[op].backward && values[input].last_reference >= op;
  }
  // Recorded step: may replays come right before the op's first run?
  bool mayReplayBefore(OpId op) const {
    return ops[op].waits || (ops[op].backward && !ops[op].inputs.empty());
  }
  // Is some op a backward event?
  bool hasBackward() const;
  // Do saved tensors hold something beyond its last read?
  bool keepsGraphs() const;
  // A training step as a program runs it: first runs in this order, backward events among them, no
  // paper's rules.
  bool isRecordedStep() const { return !any_order && !lazy_outputs && hasBackward(); }
};

// Throws std::invalid_argument naming the first op or value that breaks an invariant: ids in range,
// inputs produced before they are read, sizes and durations not negative, sums of bytes and of
// durations times ops up to 2^60, the rules of ops that wait and of `any_order`.
void checkGraph(const Graph& graph);

// For each op: do planners put replays right before its first run? Everywhere, but in a recorded
// step only if it is a backward op that reads something. Before ops that wait they put none, though
// they might: a planner counts the time of a replay alike in all places, so to replay early would
// only hold memory for longer, and where waits split what they replay for one event they would lose
// time to search. advanceReplays() moves replays there when the plan is made and bytes are left.
std::vector<bool> replayPositions(const Graph& graph);

// For each value the last op before whose first run a replay may still produce it (ops.size(): at
// any time; kNone: never). A graph input has no producer to replay. A produced value needs a
// rerunnable op, and of each input either a replay or its first copy, which may be retained until
// an op overwrites it. That a replayed input may be retained for longer is left out.
std::vector<OpId> lastReplayPositions(const Graph& graph);

}  // namespace ebbtide::scheduler
