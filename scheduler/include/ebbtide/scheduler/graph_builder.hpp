// GraphBuilder: the graph of a recorded step, and the way back from its ops to the trace.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "ebbtide/scheduler/graph.hpp"
#include "ebbtide/scheduler/trace.hpp"
#include "ebbtide/scheduler/units.hpp"

namespace ebbtide::scheduler {

enum class CopyKind : std::uint8_t { kBits, kHost };  // one bit a word; on the host

// A graph and how its ops map back to the trace. Values beyond the trace's are births and copies.
struct TraceGraph {
  struct Restore {  // what a restoring op gives back (value_copies.hpp); kNone: no such op
    ValueId value = kNone;
    CopyKind kind = CopyKind::kBits;
    bool operator==(const Restore&) const = default;
  };

  Graph graph;
  std::vector<OpId> op_of_trace_op;  // graph op of each trace op
  // Per graph op; kNone for backward events, gaps, restoring ops, ops that wait and those that
  // stand for the allocation of a graph input in mid-step ("inputs").
  std::vector<OpId> trace_op_of;
  std::vector<Restore> restores;  // per graph op
  // Per graph op: index of the trace's event with which it begins; of a restoring op its maker's.
  std::vector<std::size_t> event_of;
  // Graph ops where each use is unpacked, in order; more than one when the graph is kept for a
  // second backward.
  std::vector<std::vector<OpId>> events_of_use;
  // Live at the end of forward less live at the step's start, nothing dropped.
  Bytes activation_bytes = 0;
  Bytes base_bytes = 0;
};

struct GraphOptions {
  // The first step of a run allocates what later steps find there (optimizer state). True:
  // unmanaged blocks that outlive the step are taken as live from its start, but for those made in
  // the backward pass: gradients, which most programs let go of before the next forward pass; and
  // those that take the place of what the step found and gave back: the next one's batch. What it
  // found, gave back and made anew in other pieces (DDP's buckets) is taken as live once.
  bool first_step = false;
  // Saved values that the step never unpacked may be away until they are let go of: on the host,
  // not dropped. False: they stay with the program.
  bool unread_may_go = false;
};

// Throws std::invalid_argument when the trace contradicts itself: what is wrong and where.
TraceGraph buildGraph(const Trace& trace, const GraphOptions& options = {});

}  // namespace ebbtide::scheduler
