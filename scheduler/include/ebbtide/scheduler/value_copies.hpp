// Copies that bring a value back in place of its op: one bit a word, or on the host.
//
// A value whose contents are made of two kinds of words (a mask) has an encoded copy many times
// smaller; any large value may be written to the host, where its copy takes no byte of the budget.
// For planners a copy is another value, and to restore from it an op that may run again:
//
//   recorded:  op p ─► v ·············► backward reads v
//   graph:     op p ─► birth, copy      restore: copy ─► v (in place of birth) ···► backward
//
// so that a schedule which drops v, retains `copy` and runs `restore` again needs no more rules.
// The executor makes the copy when v is dropped, not at its birth; the graph counts it from there
// on. Masks: after Gist (Jain et al., ISCA 2018, section 4), which encodes by the kind of layer.
#pragma once

#include "ebbtide/scheduler/graph_builder.hpp"
#include "ebbtide/scheduler/trace.hpp"

namespace ebbtide::scheduler {

// For a graph as buildGraph() gives it, before it is planned; what the program needs by itself, its
// plain peak and its floor, is told by the graph without them. Adds the copy and the restoring op
// of each trace value for which that may pay: read in backward, never overwritten, and restored in
// less than `times` the time of its op; an encoded copy of less than half of its bytes, or one on
// the host (Trace::host). Of the two the quicker one; where `times` is infinite, for the lowest
// peaks, the one on the host. The value's op may not run again then, so a schedule retains the
// value or its copy to the last read; an op that may run again keeps that right where it has
// another large output without a copy. Where chains of quick ops are long, a copy that takes longer
// than one of them may still pay: `times` over 1. Ids of values stay; new ones follow them. Ids of
// ops move.
void addValueCopies(const Trace& trace, TraceGraph& graph, double times = 1);

}  // namespace ebbtide::scheduler
