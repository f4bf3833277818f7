// Traces as the ranks of a job would record them: each forward is two ops with a parameter each.
#pragma once

#include <algorithm>
#include <map>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "ebbtide/scheduler/pipeline_job.hpp"
#include "ebbtide/scheduler/trace.hpp"

namespace ebbtide::scheduler {

// Events of one rank, written one after the other; processor time stands still in wait().
//
//   forward: x, w0 ─ op ─► h; h, w1 ─ op ─► y. Saved: x, w0, h, w1.
class RankRecorder {
 public:
  using Kind = TraceEvent::Kind;

  explicit RankRecorder(std::int32_t rank = 0, std::int32_t ranks = 2) {
    trace.group_rank = rank;
    trace.group_size = ranks;
    batch = source(false);
  }

  ValueId source(bool parameter) { return value(kNone, parameter); }

  ValueId op(const std::vector<ValueId>& inputs, Nanoseconds ns) {
    const auto id = static_cast<OpId>(trace.ops.size());
    const ValueId output = value(id, false);
    trace.ops.push_back({"op", 1, ns, true, inputs, {output}, {}});
    event(Kind::kOpBegin, id);
    event(Kind::kAlloc, trace.values[output].block);
    work(ns);
    event(Kind::kOpEnd, id);
    return output;
  }

  UseId pack(ValueId v) {
    trace.use_value.push_back(v);
    return static_cast<UseId>(trace.use_value.size()) - 1;
  }

  void pass(const std::vector<UseId>& uses, Nanoseconds ns) {
    event(Kind::kBackwardPass, kNone);
    event(Kind::kBackwardNode, kNone);
    for (const UseId use : uses) event(Kind::kUnpack, use);
    work(ns);
    for (const UseId use : uses) event(Kind::kRelease, use);
  }

  void message(bool receive, std::int32_t peer, Bytes bytes) {
    event(Kind::kMessage, static_cast<std::int32_t>(trace.messages.size()));
    trace.messages.push_back({receive, peer, bytes, busy_ns});
  }
  void send(std::int32_t peer, Bytes bytes = 8) { message(false, peer, bytes); }
  void receive(std::int32_t peer, Bytes bytes = 8) { message(true, peer, bytes); }

  void begin(const std::string& scope) {
    event(Kind::kScopeBegin, static_cast<std::int32_t>(trace.scopes.size()));
    trace.scopes.push_back({scope, busy_ns, busy_ns});
  }
  void end() {
    const auto scope = static_cast<std::int32_t>(trace.scopes.size()) - 1;
    trace.scopes[scope].end_busy_ns = busy_ns;
    event(Kind::kScopeEnd, scope);
  }

  void work(Nanoseconds ns) {
    now_ns += ns;
    busy_ns += ns;
    trace.duration_ns = now_ns;
  }
  void wait(Nanoseconds ns) { trace.duration_ns = now_ns += ns; }

  Trace trace;
  ValueId batch = kNone;
  Nanoseconds now_ns = 0, busy_ns = 0;

 private:
  ValueId value(OpId producer, bool parameter) {
    trace.blocks.push_back({16, producer == kNone, false});
    trace.values.push_back(
        {producer, static_cast<BlockId>(trace.blocks.size()) - 1, kNone, kNone, parameter});
    return static_cast<ValueId>(trace.values.size()) - 1;
  }

  void event(Kind kind, std::int32_t id) { trace.events.push_back({kind, id, now_ns}); }
};

enum class Scopes : std::uint8_t { kNothing, kMicrobatches, kActions, kHints };

class JobRecorder {
 public:
  JobRecorder(const PipelineJob& job, Scopes scopes, std::mt19937& random)
      : job_(job), scopes_(scopes), random_(random), messages_(job.ranks()) {
    for (std::size_t rank = 0; rank < job.ranks(); ++rank) listMessages(static_cast<int>(rank));
  }

  Trace record(std::int32_t rank) {
    recorder_ = RankRecorder(rank, static_cast<std::int32_t>(job_.ranks()));
    weights_.clear();
    chunks_.clear();
    received_.assign(job_.ranks(), 0);
    for (const PipelineAction& action : job_.order[rank]) run(action);
    Nanoseconds tail = 0;
    for (const Stage& stage : job_.stages) {
      if (stage.rank == rank) tail += job_.profiles[stage.profile].tail_ns;
    }
    recorder_.op({recorder_.batch}, tail);
    return recorder_.trace;
  }

 private:
  using Sent = std::pair<PipelineAction, std::int32_t>;  // by an action, to a rank
  struct Chunk {
    std::vector<UseId> uses;
    ValueId output = kNone;
  };

  static bool isWeight(const PipelineAction& action) {
    return action.kind == PipelineAction::Kind::kWeightBackward;
  }
  static bool isForward(const PipelineAction& action) {
    return action.kind == PipelineAction::Kind::kForward;
  }

  // The stage whose action this one reads, and the one that reads it; kNone: none.
  std::int32_t before(const PipelineAction& action) const {
    const Stage& stage = job_.stages[action.stage];
    return isWeight(action) ? kNone : isForward(action) ? stage.previous : stage.next;
  }
  std::int32_t after(const PipelineAction& action) const {
    const Stage& stage = job_.stages[action.stage];
    return isWeight(action) ? kNone : isForward(action) ? stage.next : stage.previous;
  }

  void listMessages(std::int32_t rank) {
    for (const PipelineAction& action : job_.order[rank]) {
      const std::int32_t to = after(action);
      if (to != kNone && job_.stages[to].rank != rank) {
        messages_[rank].emplace_back(action, job_.stages[to].rank);
      }
    }
  }

  Bytes bytesOf(const PipelineAction& sent) const {
    return job_.profileOf(isForward(sent) ? sent.stage : after(sent)).output_bytes;
  }

  // Asks for all that the other rank sends up to what the action reads: messages keep their order.
  void receiveFor(const PipelineAction& action) {
    const std::int32_t from = before(action), rank = job_.stages[action.stage].rank;
    if (from == kNone || job_.stages[from].rank == rank) return;
    const std::int32_t peer = job_.stages[from].rank;
    std::size_t needed = 0;
    for (std::size_t i = 0; i < messages_[peer].size(); ++i) {
      const auto& [sent, to] = messages_[peer][i];
      if (to == rank && sent.stage == from && sent.microbatch == action.microbatch &&
          isForward(sent) == isForward(action)) {
        needed = i + 1;
      }
    }
    for (std::size_t& i = received_[peer]; i < needed; ++i) {
      if (messages_[peer][i].second == rank) {
        recorder_.receive(peer, bytesOf(messages_[peer][i].first));
      }
    }
    recorder_.wait(static_cast<Nanoseconds>(random_() % 50));
  }

  void run(const PipelineAction& action) {
    const bool scope = beginScope(action);
    receiveFor(action);
    compute(action);
    const std::int32_t to = after(action);
    if (to != kNone && job_.stages[to].rank != job_.stages[action.stage].rank) {
      recorder_.send(job_.stages[to].rank, bytesOf(action));
    }
    if (scope) recorder_.end();
  }

  bool beginScope(const PipelineAction& action) {
    const std::string microbatch = std::to_string(action.microbatch);
    switch (scopes_) {
      case Scopes::kNothing:
        return false;
      case Scopes::kMicrobatches:
        recorder_.begin((isForward(action) ? "Forward " : "Backward ") + microbatch);
        break;
      case Scopes::kActions:
        recorder_.begin("PP:" + toText(action));
        break;
      case Scopes::kHints:
        recorder_.begin("ebbtide:" + std::to_string(action.stage) + ":" + microbatch);
        break;
    }
    return true;
  }

  void compute(const PipelineAction& action) {
    const StageProfile& profile = job_.profileOf(action.stage);
    Chunk& chunk = chunks_[{action.stage, action.microbatch}];
    switch (action.kind) {
      case PipelineAction::Kind::kForward:
        forward(action, chunk);
        break;
      case PipelineAction::Kind::kBackward:
        recorder_.pass(chunk.uses, profile.input_backward_ns + profile.weight_backward_ns);
        break;
      case PipelineAction::Kind::kInputBackward:
        recorder_.pass({chunk.uses[1], chunk.uses[3]}, profile.input_backward_ns);
        break;
      case PipelineAction::Kind::kWeightBackward:  // a pass for each parameter
        recorder_.pass({chunk.uses[2]}, profile.weight_backward_ns / 2);
        recorder_.pass({chunk.uses[0]},
                       profile.weight_backward_ns - profile.weight_backward_ns / 2);
        break;
    }
  }

  void forward(const PipelineAction& action, Chunk& chunk) {
    const StageProfile& profile = job_.profileOf(action.stage);
    const Stage& stage = job_.stages[action.stage];
    std::vector<ValueId>& weights = weights_[action.stage];
    if (weights.empty()) weights = {recorder_.source(true), recorder_.source(true)};
    ValueId x = recorder_.batch;
    if (stage.previous != kNone) {
      const bool local = job_.stages[stage.previous].rank == stage.rank;
      x = local ? chunks_[{stage.previous, action.microbatch}].output : recorder_.source(false);
    }
    const ValueId h = recorder_.op({x, weights[0]}, profile.forward_ns / 2);
    chunk.uses = {recorder_.pack(x), recorder_.pack(weights[0]), recorder_.pack(h),
                  recorder_.pack(weights[1])};
    chunk.output = recorder_.op({h, weights[1]}, profile.forward_ns - profile.forward_ns / 2);
  }

  const PipelineJob& job_;
  Scopes scopes_;
  std::mt19937& random_;
  std::vector<std::vector<Sent>> messages_;  // that each rank sends, in its order
  RankRecorder recorder_;
  std::map<std::int32_t, std::vector<ValueId>> weights_;
  std::map<std::pair<std::int32_t, std::int32_t>, Chunk> chunks_;
  std::vector<std::size_t> received_;  // of each rank's messages, looked through
};

}  // namespace ebbtide::scheduler
