// Values that may be kept as one bit a word: masks.
//
// A value whose contents are made of two kinds of words has an encoded copy many times smaller, and
// decoding that is quicker than most ops. For planners it is another value, and decoding an op that
// may run again:
//
//   recorded:  op p ─► v ···············► backward reads v
//   graph:     op p ─► birth, encoded     decode: encoded ─► v (in place of birth) ···► backward
//
// so that a schedule which drops v, retains `encoded` and runs `decode` again needs no more rules.
// The executor encodes when v is dropped, not at its birth; the graph counts the encoded copy from
// there on. After Gist (Jain et al., ISCA 2018, section 4), which encodes by the kind of layer.
#pragma once

#include "ebbtide/scheduler/trace.hpp"

namespace ebbtide::scheduler {

// For a graph as buildGraph() gives it, before it is planned; what the program needs by itself, its
// plain peak and its floor, is told by the graph without them. Adds the encoded copy and the
// decoding op of each trace value for which that may pay: read in backward, never overwritten, its
// op's only output, of more than twice the encoded bytes, and quicker to encode and decode than to
// compute again. Its op may not run again then, so a schedule retains one of the two to the last
// read. Ids of values stay; new ones follow them. Ids of ops move.
void addEncodedValues(const Trace& trace, TraceGraph& graph);

}  // namespace ebbtide::scheduler
