#include "ebbtide/scheduler/rank_curves.hpp"

#include <algorithm>
#include <chrono>
#include <numeric>
#include <stdexcept>
#include <string>
#include <utility>

#include "model/last_reads.hpp"

namespace ebbtide::scheduler {

namespace {

// When it is asked for differs from one microbatch to the next.
bool isMessage(const Op& op) {
  return op.waits || (!op.backward && op.outputs.empty() && op.name.starts_with("c10d::"));
}

// Per op: it makes what messages alone read and fill. Torch 2.15 makes each receive's buffer
// right before it asks, which may be within another microbatch's action.
std::vector<bool> makeBuffersOfMessages(const Graph& step) {
  std::vector<bool> of_message(step.values.size(), false), of_others(step.values.size(), false);
  for (const Op& op : step.ops) {
    std::vector<bool>& reads = isMessage(op) ? of_message : of_others;
    for (const ValueId v : op.inputs) reads[v] = true;
  }
  std::vector<bool> make(step.ops.size(), false);
  for (std::size_t op = 0; op < step.ops.size(); ++op) {
    const Op& one = step.ops[op];
    make[op] = one.inputs.empty() && !one.outputs.empty() &&
               std::all_of(one.outputs.begin(), one.outputs.end(),
                           [&](ValueId v) { return of_message[v] && !of_others[v]; });
  }
  return make;
}

// Reads nothing that is trained or was computed. A recorder that has paused since the last backward
// pass does not see such ops: it goes on with the first one that reads something trained.
bool preparesData(const Graph& step, OpId op) {
  const std::vector<ValueId>& inputs = step.ops[op].inputs;
  return std::all_of(inputs.begin(), inputs.end(), [&step](ValueId v) {
    return !step.values[v].pinned && step.values[v].producer == kNone;
  });
}

// Per value: the last op that reads it, replays for a microbatch's backward pass among them.
std::vector<OpId> lastReads(const Graph& step, const std::vector<Microbatch>& microbatches) {
  std::vector<OpId> last = lastReads(step);
  for (const Microbatch& microbatch : microbatches) {
    const std::vector<Op>& ops = microbatch.graph().ops;
    const OpId end = microbatch.stepOp(static_cast<OpId>(ops.size()) - 1);
    for (const Op& op : ops) {
      if (!op.rerunnable) continue;
      for (const ValueId v : op.inputs) {
        OpId& read = last[microbatch.stepValue(v)];
        read = std::max(read, end);
      }
    }
  }
  return last;
}

// Per op: bytes of the values that are none of these microbatches', as long as somebody reads them
// or the program or saved tensors hold them.
std::vector<Bytes> othersBytes(const Graph& step, const std::vector<Microbatch>& microbatches) {
  std::vector<bool> own(step.values.size(), false);
  for (const Microbatch& microbatch : microbatches) {
    for (std::size_t v = 0; v < microbatch.graph().values.size(); ++v) {
      if (!microbatch.graph().values[v].pinned)
        own[microbatch.stepValue(static_cast<ValueId>(v))] = true;
    }
  }
  const std::vector<OpId> last = lastReads(step, microbatches);
  std::vector<Bytes> live(step.ops.size() + 1, 0);
  for (std::size_t v = 0; v < step.values.size(); ++v) {
    const Value& value = step.values[v];
    if (own[v] || value.pinned) continue;
    OpId end = std::max({last[v], value.last_reference, value.saved_last, value.producer});
    if (value.overwritten_by != kNone) end = std::min(end, value.overwritten_by);
    if (end == kNone) continue;
    live[std::max<OpId>(0, value.producer)] += value.bytes;
    live[end + 1] -= value.bytes;
  }
  std::partial_sum(live.begin(), live.end(), live.begin());
  return live;
}

// What is live besides what the microbatches count themselves, at the most of their ops.
Bytes besides(const MicrobatchedStep& step, const std::vector<Microbatch>& microbatches) {
  const std::vector<Bytes> others = othersBytes(step.graph(), microbatches);
  Bytes most = step.baseBytes();
  for (const MicrobatchOps& ops : step.microbatches()) {
    for (const auto* action : {&ops.forward, &ops.backward, &ops.weight_backward}) {
      for (const OpId op : *action) {
        const Bytes fixed = std::min(step.graph().ops[op].fixed_bytes, step.baseBytes());
        most = std::max(most, fixed + others[op]);
      }
    }
  }
  return most;
}

}  // namespace

std::vector<MicrobatchOps> microbatchOps(const TraceGraph& step, const RankActions& actions) {
  const std::vector<bool> buffers = makeBuffersOfMessages(step.graph);
  std::vector<MicrobatchOps> chunks(actions.chunks.size());
  for (const RankAction& action : actions.actions) {
    const auto first =
        std::lower_bound(step.event_of.begin(), step.event_of.end(), action.first_event);
    const auto end = std::lower_bound(first, step.event_of.end(), action.end_event);
    MicrobatchOps& chunk = chunks[action.chunk];
    const bool forward = action.kind == PipelineAction::Kind::kForward;
    const bool weights = action.kind == PipelineAction::Kind::kWeightBackward;
    auto& ops = forward ? chunk.forward : weights ? chunk.weight_backward : chunk.backward;
    for (auto op = first; op != end; ++op) {
      const auto id = static_cast<OpId>(op - step.event_of.begin());
      // In a backward pass the program adds up gradients, say: not in each one the same.
      const bool own =
          forward ? !isMessage(step.graph.ops[id]) && !buffers[id] : step.graph.ops[id].backward;
      if (own) ops.push_back(id);
    }
  }
  for (MicrobatchOps& chunk : chunks) {
    const auto begin = std::find_if(chunk.forward.begin(), chunk.forward.end(),
                                    [&](OpId op) { return !preparesData(step.graph, op); });
    chunk.forward.erase(chunk.forward.begin(), begin);
  }
  // A first stage has no gradient of its input to make: nothing is read before the weights'.
  for (MicrobatchOps& chunk : chunks) {
    if (chunk.backward.empty()) chunk.backward.swap(chunk.weight_backward);
  }
  return chunks;
}

std::int32_t mostInFlight(const RankActions& actions) {
  std::int32_t now = 0, most = 1;
  for (const RankAction& action : actions.actions) {
    now += action.kind == PipelineAction::Kind::kForward;
    most = std::max(most, now);
    now -= action.kind == PipelineAction::Kind::kBackward ||
           action.kind == PipelineAction::Kind::kInputBackward;
  }
  return most;
}

RankCurves::RankCurves(const TraceGraph& step, const RankActions& actions)
    : in_flight_(mostInFlight(actions)), curves_(static_cast<std::size_t>(actions.parts)) {
  const MicrobatchedStep microbatches(step.graph, microbatchOps(step, actions));
  const std::size_t count = microbatches.microbatches().size();
  chunks_.reserve(count);
  for (std::size_t c = 0; c < count; ++c) {
    const Microbatch& chunk = chunks_.emplace_back(microbatches, c);
    const std::int32_t part = actions.chunks[c].part;
    part_of_chunk_.push_back(part);
    if (std::cmp_equal(joint_.size(), part)) joint_.push_back(chunk);
    if (!chunk.isLike(joint_.at(part)))
      throw std::invalid_argument("microbatch " + std::to_string(c) +
                                  " of the rank does not run the ops of the others of its stage");
    joint_[part].pinAs(chunk);
  }
  for (std::size_t c = 0; c < count; ++c) {
    Microbatch& joint = joint_[part_of_chunk_[c]];
    chunks_[c].pinAs(joint);
    joint.join(chunks_[c]);
  }
  fixed_bytes_ = besides(microbatches, chunks_);
}

void RankCurves::trace(Bytes cap_bytes, const CurveOptions& options) {
  using Clock = std::chrono::steady_clock;
  for (std::size_t part = 0; part < curves_.size(); ++part) {
    CurveOptions of_part = options;
    of_part.most_bytes = cap_bytes - fixed_bytes_;
    of_part.in_flight = in_flight_;
    if (options.planner_options.deadline != Clock::time_point::max()) {
      const auto left = options.planner_options.deadline - Clock::now();
      of_part.planner_options.deadline =
          Clock::now() + left / static_cast<Clock::rep>(curves_.size() - part);
    }
    curves_[part] = microbatchCurve(joint_[part], of_part);
  }
}

Bytes RankCurves::weightHeldBytes(std::size_t part) const {
  Bytes held = 0;
  for (const MicrobatchPoint& point : curves_[part])
    held = std::max(held, joint_[part].weightHeldBytes(point.schedule));
  return held;
}

bool RankCurves::fit(const RankCurves& other) const {
  return part_of_chunk_ == other.part_of_chunk_ &&
         std::equal(joint_.begin(), joint_.end(), other.joint_.begin(), other.joint_.end(),
                    [](const Microbatch& a, const Microbatch& b) { return a.isLike(b); });
}

Schedule RankCurves::compose(const Graph& step, const RankCurves& of_step,
                             const std::vector<std::int32_t>& points) const {
  std::vector<const Microbatch*> chunks;
  std::vector<const Schedule*> schedules;
  for (std::size_t c = 0; c < of_step.chunks_.size(); ++c) {
    chunks.push_back(&of_step.chunks_[c]);
    schedules.push_back(&curves_[part_of_chunk_[c]].at(points.at(c)).schedule);
  }
  return composeStep(step, chunks, schedules);
}

}  // namespace ebbtide::scheduler
