// A hand-made trace whose numbers can be derived in a comment.
#pragma once

#include <vector>

#include "ebbtide/scheduler/trace.hpp"

namespace ebbtide::scheduler {

// Two ops in a row, both outputs saved, the last one read first:
//
//   x (block 0, before the step) ─ op 0 ─► v1 (block 1, 100 B) ─ op 1 ─► v2 (block 2, 100 B)
//   backward: unpack use 1 (v2), release; unpack use 0 (v1), release
inline Trace twoOps() {
  using Kind = TraceEvent::Kind;
  Trace trace;
  trace.signature = 42;
  trace.base_bytes = 1000;
  trace.blocks = {{50, true, false}, {100, false, false}, {100, false, false}};
  trace.values = {
      {kNone, 0, kNone, kNone, false}, {0, 1, kNone, kNone, false}, {1, 2, kNone, kNone, false}};
  trace.ops = {{"first", 11, 5, true, {0}, {1}}, {"second", 12, 7, true, {1}, {2}}};
  trace.use_value = {1, 2};
  trace.events = {
      {Kind::kOpBegin, 0, 0},       {Kind::kAlloc, 1, 1},         {Kind::kOpEnd, 0, 2},
      {Kind::kOpBegin, 1, 3},       {Kind::kAlloc, 2, 4},         {Kind::kOpEnd, 1, 5},
      {Kind::kLastReference, 1, 6}, {Kind::kLastReference, 2, 6}, {Kind::kBackwardNode, 0, 7},
      {Kind::kUnpack, 1, 8},        {Kind::kRelease, 1, 9},       {Kind::kFree, 2, 9},
      {Kind::kBackwardNode, 0, 10}, {Kind::kUnpack, 0, 11},       {Kind::kRelease, 0, 12},
      {Kind::kFree, 1, 12}};
  return trace;
}

// twoOps() whose graph is kept: its second value is let go of long after it was read.
//
//   forward v1, v2 ─ read v2, then v1 ─ op 2 ─► v3 (block 3, 300 B, gone after it) ─ read v1 again,
//   release both
inline Trace keptGraph() {
  using Kind = TraceEvent::Kind;
  Trace trace = twoOps();
  trace.blocks.push_back({300, false, false});
  trace.values.push_back({2, 3, kNone, kNone, false});
  trace.ops.push_back({"third", 13, 9, true, {0}, {3}});
  trace.events.resize(8);  // up to the end of the forward pass
  trace.events.insert(trace.events.end(), {{Kind::kBackwardNode, 0, 7},
                                           {Kind::kUnpack, 1, 8},
                                           {Kind::kBackwardNode, 0, 9},
                                           {Kind::kUnpack, 0, 10},
                                           {Kind::kOpBegin, 2, 11},
                                           {Kind::kAlloc, 3, 12},
                                           {Kind::kOpEnd, 2, 13},
                                           {Kind::kFree, 3, 14},
                                           {Kind::kBackwardNode, 0, 15},
                                           {Kind::kUnpack, 0, 16},
                                           {Kind::kRelease, 1, 17},
                                           {Kind::kFree, 2, 17},
                                           {Kind::kRelease, 0, 18},
                                           {Kind::kFree, 1, 18}});
  return trace;
}

// twoOps() as the last of two ranks does it for microbatch 3, under the names that torch gives it:
//
//   receive x ─ [PP:1F3 ─ op 0 ─ op 1 ─] ─ [PP:1B3 ─ backward pass ─] ─ send its gradient
inline Trace twoOpsOfARank() {
  using Kind = TraceEvent::Kind;
  Trace trace = twoOps();
  trace.group = "pipe";
  trace.group_rank = 1;
  trace.group_size = 2;
  trace.messages = {{true, 0, 50, 0}, {false, 0, 50, 11}};
  trace.scopes = {{"PP:1F3", 1, 5}, {"PP:1B3", 6, 10}};
  const std::vector<TraceEvent> ops = trace.events;
  trace.events = {{Kind::kMessage, 0, 0}, {Kind::kScopeBegin, 0, 0}};
  trace.events.insert(trace.events.end(), ops.begin(), ops.begin() + 8);
  trace.events.insert(
      trace.events.end(),
      {{Kind::kScopeEnd, 0, 6}, {Kind::kScopeBegin, 1, 6}, {Kind::kBackwardPass, 0, 7}});
  trace.events.insert(trace.events.end(), ops.begin() + 8, ops.end());
  trace.events.insert(trace.events.end(), {{Kind::kScopeEnd, 1, 13}, {Kind::kMessage, 1, 14}});
  return trace;
}

}  // namespace ebbtide::scheduler
