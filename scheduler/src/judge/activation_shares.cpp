#include "ebbtide/scheduler/activation_shares.hpp"

#include <algorithm>
#include <vector>

#include "model/last_reads.hpp"

namespace ebbtide::scheduler {
namespace {

constexpr const char* kHeld = "held by the program";
constexpr const char* kUnseen =
    "made where operations are not recorded (no_grad, a custom Function, a transform, data)";
constexpr const char* kUnknown = "not to be computed again";
constexpr const char* kReadsWrittenOver = "reads what was written over while in use";
constexpr const char* kWrittenOver = "written over while in use";
constexpr const char* kUnread = "saved, but not read in this step";
constexpr const char* kOther = "no saved value of its own";

OpId firstBackward(const Graph& graph) {
  const auto found =
      std::find_if(graph.ops.begin(), graph.ops.end(), [](const Op& op) { return op.backward; });
  return static_cast<OpId>(found - graph.ops.begin());
}

// Of an op that may not run again.
std::string whyKept(const TraceOp& op) {
  if (op.rerunnable) return kReadsWrittenOver;  // as it was recorded: buildGraph() says no
  return op.kept_because.empty() ? kUnknown : op.kept_because;
}

// Blocks that buildGraph() leaves to the program, with the reason.
std::map<BlockId, const char*> whyShared(const Trace& trace, const Graph& graph) {
  std::vector<bool> used(trace.values.size(), false);
  for (const ValueId v : trace.use_value) {
    if (v != kNone) used[v] = true;
  }
  std::map<BlockId, const char*> shared;
  for (std::size_t v = 0; v < trace.values.size(); ++v) {
    const TraceValue& value = trace.values[v];
    if (value.parameter || value.block == kNone || !graph.values[v].pinned) continue;
    const char*& why = shared.try_emplace(value.block, kUnread).first->second;
    if (used[v] && value.overwritten_by != kNone) why = kWrittenOver;
  }
  return shared;
}

void addShared(const Trace& trace, const Graph& graph, ActivationShares& shares) {
  std::vector<bool> live(trace.blocks.size(),
                         false);  // of this step, when its backward pass begins
  for (const TraceEvent& event : trace.events) {
    if (event.kind == TraceEvent::Kind::kBackwardNode) break;
    if (event.kind == TraceEvent::Kind::kUnpack) break;
    if (event.kind == TraceEvent::Kind::kAlloc) live[event.id] = true;
    if (event.kind == TraceEvent::Kind::kFree) live[event.id] = false;
  }
  for (const auto& [block, why] : whyShared(trace, graph)) {
    if (live[block]) shares.kept_bytes[why] += trace.blocks[block].bytes;
  }
}

}  // namespace

void ActivationShares::addRestOf(Bytes activation_bytes) {
  const Bytes rest = activation_bytes - totalBytes();
  if (rest > 0) kept_bytes[kOther] += rest;
}

Bytes ActivationShares::totalBytes() const {
  Bytes total = recomputable_bytes;
  for (const auto& [why, bytes] : kept_bytes) total += bytes;
  return total;
}

ActivationShares activationShares(const Trace& trace, const TraceGraph& step) {
  ActivationShares shares;
  const Graph& graph = step.graph;
  const OpId backward = firstBackward(graph);
  const std::vector<OpId> last_read = lastReads(graph);
  for (std::size_t v = 0; v < trace.values.size(); ++v) {
    const Value& value = graph.values[v];
    const TraceValue& recorded = trace.values[v];
    if (value.pinned || value.producer >= backward) continue;
    if (value.overwritten_by != kNone && value.overwritten_by < backward) continue;
    const bool read = last_read[v] >= backward;
    if (!read && value.last_reference < backward) continue;
    const bool made = recorded.producer != kNone;
    if (!made && trace.blocks[recorded.block].before_step) continue;
    const Op* const maker = made ? &graph.ops[value.producer] : nullptr;
    if (!read || value.last_reference >= last_read[v]) {
      shares.kept_bytes[kHeld] += value.bytes;
    } else if (recorded.encoded_bytes > 0 || (maker != nullptr && maker->rerunnable)) {
      shares.recomputable_bytes += value.bytes;
    } else if (maker == nullptr) {
      shares.kept_bytes[kUnseen] += value.bytes;
    } else {
      shares.kept_bytes[whyKept(trace.ops[recorded.producer])] += value.bytes;
    }
  }
  addShared(trace, graph, shares);
  return shares;
}

}  // namespace ebbtide::scheduler
