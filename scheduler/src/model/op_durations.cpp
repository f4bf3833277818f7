#include "ebbtide/scheduler/op_durations.hpp"

#include <algorithm>
#include <utility>

namespace ebbtide::scheduler {

OpDurations::Kind OpDurations::kindOf(const Trace& trace, const TraceOp& op) {
  const auto bytesOf = [&](const std::vector<ValueId>& values) {
    std::vector<Bytes> bytes;
    for (const ValueId v : values) {
      const BlockId block = trace.values.at(v).block;
      bytes.push_back(block == kNone ? 0 : trace.blocks.at(block).bytes);
    }
    return bytes;
  };
  return {op.name, bytesOf(op.inputs), bytesOf(op.outputs)};
}

void OpDurations::merge(Trace& trace) {
  std::vector<Nanoseconds*> least;
  least.reserve(trace.ops.size());
  for (const TraceOp& op : trace.ops) {
    const auto place = least_ns_.try_emplace(kindOf(trace, op), op.duration_ns).first;
    place->second = std::min(place->second, op.duration_ns);
    least.push_back(&place->second);
  }
  for (std::size_t i = 0; i < trace.ops.size(); ++i) trace.ops[i].duration_ns = *least[i];
  mergeCodecs(trace);
  step_ns_ = empty() ? trace.duration_ns : std::min(step_ns_, trace.duration_ns);
  trace.duration_ns = step_ns_;
}

void OpDurations::mergeCodecs(Trace& trace) {
  std::vector<std::pair<Nanoseconds*, Nanoseconds*>> least;  // of the trace, of the kind
  for (const TraceOp& op : trace.ops) {
    for (std::size_t i = 0; i < op.outputs.size(); ++i) {
      TraceValue& value = trace.values[op.outputs[i]];
      if (value.encoded_bytes == 0) continue;
      const auto kind = std::tuple(op.name, i, value.encoded_bytes);
      const auto place = least_codec_ns_.try_emplace(kind, value.codec_ns).first;
      place->second = std::min(place->second, value.codec_ns);
      least.emplace_back(&value.codec_ns, &place->second);
    }
  }
  for (const auto& [of_value, of_kind] : least) *of_value = *of_kind;
}

}  // namespace ebbtide::scheduler
