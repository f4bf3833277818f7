#include "model/late_inputs.hpp"

#include <algorithm>

namespace ebbtide::scheduler {

LateInputs::LateInputs(const Trace& trace, const std::vector<bool>& managed)
    : source_in_(trace.blocks.size(), kNone),
      written_before_(trace.ops.size()),
      born_at_(trace.values.size(), kNone),
      takes_over_(trace.values.size(), kNone) {
  const auto ops = static_cast<OpId>(trace.ops.size());
  std::vector<OpId> first_read(trace.values.size(), ops), last_read(trace.values.size(), kNone);
  for (OpId op = 0; op < ops; ++op) {
    for (const ValueId v : trace.ops[op].inputs) {
      first_read.at(v) = std::min(first_read[v], op);
      last_read[v] = op;
    }
  }
  std::vector<ValueId> newest(trace.blocks.size(), kNone);
  for (std::size_t v = 0; v < trace.values.size(); ++v) {
    const TraceValue& value = trace.values[v];
    if (value.block == kNone || value.parameter) continue;
    const ValueId before = std::exchange(newest[value.block], static_cast<ValueId>(v));
    const TraceBlock& block = trace.blocks[value.block];
    if (value.producer != kNone || !managed[value.block]) continue;
    if (before == kNone) {
      if (!block.before_step && !block.ours) source_in_[value.block] = newest[value.block];
      continue;
    }
    const OpId written_before = trace.values[before].overwritten_by;
    if (written_before == kNone) continue;
    const OpId op = std::min(written_before, first_read[v]);
    if (last_read[before] < op && trace.values[before].producer < op)
      written_before_[op].push_back({newest[value.block], before});
  }
}

}  // namespace ebbtide::scheduler
