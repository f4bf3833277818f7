// FirstStep: what the first step of a run leaves to later ones (GraphOptions::first_step).
//
//   found ───────────────── gone     kept ───────────► in the base of later steps, as in its own
//   batch, averages,    ▲                    made ───► persistent: counts from the step's start on
//   first buckets       └─ as large: in its place      (the optimizer's state)
//                          in other pieces: found once, and counts no more (DDP's buckets)
//
// A step ends when the next one begins, whose batch is there by then.
#pragma once

#include <vector>

#include "ebbtide/scheduler/trace.hpp"
#include "ebbtide/scheduler/units.hpp"

namespace ebbtide::scheduler {

struct FirstStep {                // per block
  std::vector<bool> persistent;   // made, and in nothing's place: later steps find it too
  std::vector<Bytes> found_once;  // of what it found and gave back: so much less later steps find
};

// `managed`: per block, does the schedule decide about its lifetime? The trace was checked.
FirstStep firstStep(const Trace& trace, const std::vector<bool>& managed);

}  // namespace ebbtide::scheduler
