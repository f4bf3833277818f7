#include "model/block_roles.hpp"

#include <utility>

#include "model/first_step.hpp"

namespace ebbtide::scheduler {
namespace {

using Kind = TraceEvent::Kind;

// A value that was written over while a use still held it (a chunk of a shared storage, or
// .data): its uses read the storage as it is. A value with a use that was never unpacked: a loss
// whose backward pass did not run in this step may run in another. What an op wrote over without
// a value to show for it (a receive) lives on as long as its block. Such a block is left to the
// program.
std::vector<bool> sharedBlocks(const Trace& trace, const GraphOptions& options) {
  std::vector<bool> shared(trace.blocks.size(), false);
  std::vector<bool> used(trace.values.size(), false);
  for (const ValueId v : trace.use_value) {
    if (v != kNone) used.at(v) = true;
  }
  std::vector<ValueId> newest(trace.blocks.size(), kNone);
  for (std::size_t v = 0; v < trace.values.size(); ++v) {
    if (trace.values[v].block != kNone) newest[trace.values[v].block] = static_cast<ValueId>(v);
  }
  for (std::size_t b = 0; b < newest.size(); ++b) {
    if (newest[b] != kNone && trace.values[newest[b]].overwritten_by != kNone) shared[b] = true;
  }
  for (std::size_t v = 0; v < trace.values.size(); ++v) {
    const TraceValue& value = trace.values[v];
    if (used[v] && value.overwritten_by != kNone && value.block != kNone)
      shared[value.block] = true;
  }
  if (options.unread_may_go) return shared;
  std::vector<bool> unpacked(trace.use_value.size(), false);
  for (const TraceEvent& event : trace.events) {
    if (event.kind == Kind::kUnpack) unpacked.at(event.id) = true;
  }
  for (std::size_t use = 0; use < unpacked.size(); ++use) {
    const ValueId v = trace.use_value[use];
    if (unpacked[use] || v == kNone || trace.values[v].block == kNone) continue;
    shared[trace.values[v].block] = true;
  }
  return shared;
}

}  // namespace

BlockRoles blockRoles(const Trace& trace, const GraphOptions& options) {
  BlockRoles roles;
  roles.shared = sharedBlocks(trace, options);
  roles.managed.assign(trace.blocks.size(), false);
  for (const TraceValue& value : trace.values) {
    if (value.block != kNone && !value.parameter && !roles.shared[value.block])
      roles.managed.at(value.block) = true;
  }
  roles.persistent.assign(trace.blocks.size(), false);
  roles.found_once.assign(trace.blocks.size(), 0);
  if (options.first_step) {
    FirstStep first = firstStep(trace, roles.managed);
    roles.persistent = std::move(first.persistent);
    roles.found_once = std::move(first.found_once);
  }
  return roles;
}

}  // namespace ebbtide::scheduler
