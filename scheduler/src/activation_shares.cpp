#include "ebbtide/scheduler/activation_shares.hpp"

#include <algorithm>
#include <vector>

namespace ebbtide::scheduler {
namespace {

constexpr const char* kHeld = "held by the program";
constexpr const char* kUnseen =
    "made where operations are not recorded (no_grad, a custom Function, a transform, data)";
constexpr const char* kUnknown = "not to be computed again";
constexpr const char* kOther = "no saved value of its own";

std::vector<OpId> lastReads(const Graph& graph) {
  std::vector<OpId> last(graph.values.size(), kNone);
  for (std::size_t i = 0; i < graph.ops.size(); ++i) {
    for (const ValueId v : graph.ops[i].inputs) last[v] = static_cast<OpId>(i);
  }
  return last;
}

OpId firstBackward(const Graph& graph) {
  const auto found =
      std::find_if(graph.ops.begin(), graph.ops.end(), [](const Op& op) { return op.backward; });
  return static_cast<OpId>(found - graph.ops.begin());
}

}  // namespace

ActivationShares activationShares(const Trace& trace, const TraceGraph& step) {
  ActivationShares shares;
  const Graph& graph = step.graph;
  const OpId backward = firstBackward(graph);
  const std::vector<OpId> last_read = lastReads(graph);
  Bytes counted = 0;
  for (std::size_t v = 0; v < trace.values.size(); ++v) {
    const Value& value = graph.values[v];
    const TraceValue& recorded = trace.values[v];
    if (value.pinned || value.producer >= backward) continue;
    if (value.overwritten_by != kNone && value.overwritten_by < backward) continue;
    const bool read = last_read[v] >= backward;
    if (!read && value.natural_last < backward) continue;
    if (value.producer == kNone && trace.blocks[recorded.block].before_step) continue;
    counted += value.bytes;
    const Op* const maker = value.producer == kNone ? nullptr : &graph.ops[value.producer];
    if (!read || value.natural_last >= last_read[v]) {
      shares.kept_bytes[kHeld] += value.bytes;
    } else if (recorded.encoded_bytes > 0 || (maker != nullptr && maker->rerunnable)) {
      shares.recomputable_bytes += value.bytes;
    } else if (maker == nullptr) {
      shares.kept_bytes[kUnseen] += value.bytes;
    } else {
      const std::string& why = trace.ops[recorded.producer].kept_because;
      shares.kept_bytes[why.empty() ? kUnknown : why] += value.bytes;
    }
  }
  if (step.activation_bytes > counted) shares.kept_bytes[kOther] = step.activation_bytes - counted;
  return shares;
}

}  // namespace ebbtide::scheduler
