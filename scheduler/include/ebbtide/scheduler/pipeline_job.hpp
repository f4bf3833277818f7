// PipelineJob: one training step of a model that is cut into stages, as its planner sees it.
//
// Each rank runs its actions in the order given; eager code cannot reorder them. Between ranks only
// activations (forward) and their gradients (backward) travel.
//
//   1F1B, 2 ranks, 4 microbatches; F forward, B backward, r replays of what the forward dropped
//   rank 0   F0 F1 ........ r B0 F2 .. r B1 F3 ...
//   rank 1      F0 B0 F1 B1    ...
//                  └─ gradient ─▲        replays before its arrival cost nothing
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "ebbtide/scheduler/units.hpp"

namespace ebbtide::scheduler {

// What one microbatch of a stage may do: one point of its time-memory curve. Bytes are those of one
// microbatch, above all that the rank holds besides.
struct StagePoint {
  Bytes held_bytes = 0;          // from the forward's end to the backward's begin
  Bytes forward_bytes = 0;       // most while forward runs; at least what it holds in the end
  Bytes backward_bytes = 0;      // most during backward, replays on demand; the same
  Nanoseconds recompute_ns = 0;  // replays
  Bytes ahead_bytes = 0;         // backward_bytes if all replays run before it, where that is more

  Bytes aheadBytes() const { return std::max(backward_bytes, ahead_bytes); }

  friend bool operator==(const StagePoint&, const StagePoint&) = default;
};

struct StageProfile {
  std::string name;
  Nanoseconds forward_ns = 0;
  // Gradients of the stage's input, of its weights. A schedule that does not tell them apart runs
  // both at once.
  Nanoseconds input_backward_ns = 0;
  Nanoseconds weight_backward_ns = 0;
  Nanoseconds tail_ns = 0;         // after the last action: reduction of gradients, optimizer
  Bytes fixed_bytes = 0;           // parameters, gradients, optimizer; live for the whole step
  Bytes output_bytes = 0;          // to the next stage, for a microbatch; its gradient comes back
  Bytes weight_held_bytes = 0;     // from the input gradient's end to the weights'
  std::vector<StagePoint> points;  // by rising recompute_ns and falling held_bytes; at least one
  std::int32_t layers = 0;         // 0: not known
};

struct Stage {
  std::int32_t profile = 0;  // index into PipelineJob::profiles
  std::int32_t rank = 0;
  std::int32_t previous = kNone;  // the stage whose output it reads; kNone: the data
  std::int32_t next = kNone;
};

struct PipelineAction {
  enum class Kind : std::uint8_t { kForward, kBackward, kInputBackward, kWeightBackward };
  Kind kind = Kind::kForward;
  std::int32_t stage = 0;
  std::int32_t microbatch = 0;

  friend bool operator==(const PipelineAction&, const PipelineAction&) = default;
};

using ActionOrder = std::vector<std::vector<PipelineAction>>;  // of each rank

struct PipelineJob {
  std::vector<StageProfile> profiles;
  std::vector<Stage> stages;
  ActionOrder order;
  std::int32_t microbatches = 0;
  std::vector<Bytes> budgets;  // of each rank
  // Of each rank: for each of its actions what is live then besides fixed_bytes and microbatches
  // (gradients that came by then). None: nothing.
  std::vector<std::vector<Bytes>> besides_bytes = {};
  Nanoseconds latency_ns = 0;   // of a message between two ranks
  double bytes_per_second = 0;  // of a link between two ranks, one message at a time; 0: no limit
  // That the ranks share: of n that compute at a moment each runs at the rate processors / n, at
  // most 1. 0: each rank has its own. Known to the simulator, not to the planner.
  std::int32_t processors = 0;
  // Replays run before the wait for the gradient as far as the budget has room, or only once it is
  // there.
  bool replays_ahead = true;

  const StageProfile& profileOf(std::int32_t stage) const {
    return profiles[stages[stage].profile];
  }
  Bytes besidesBytes(std::size_t rank, std::size_t action) const {
    return besides_bytes.empty() ? 0 : besides_bytes[rank][action];
  }
  std::size_t ranks() const { return order.size(); }
};

// Of each stage, for each microbatch an index into its profile's points. Microbatches that a stage
// never sees (two pipelines on the same ranks) keep any.
using StageChoices = std::vector<std::vector<std::int32_t>>;

// Throws std::invalid_argument naming the first stage, point, rank or action that breaks an
// invariant: indices in range, links that are mutual and without a circle, sizes and times not
// negative and with a sum below 2^60, points in order, each microbatch of a stage forward once and
// backward once in whole or in its two parts, in this order, and the same ones in a chain of
// stages. That ranks wait for each other in a circle is the simulator's to find.
void checkJob(const PipelineJob& job);

// Of an action: "3F12", as torch's pipelining writes stage, action (F, B, I, W) and microbatch.
std::string toText(const PipelineAction& action);
// Actions with spaces or commas between them. Throws std::invalid_argument naming the word.
std::vector<PipelineAction> actionsFromText(const std::string& text);

}  // namespace ebbtide::scheduler
