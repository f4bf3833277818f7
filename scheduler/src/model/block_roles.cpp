#include "model/block_roles.hpp"

#include <algorithm>
#include <map>

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

// Blocks that later steps find at their start.
std::vector<bool> persistentBlocks(const Trace& trace, const std::vector<bool>& managed) {
  std::vector<bool> persistent(trace.blocks.size(), false);
  std::vector<bool> freed(trace.blocks.size(), false);
  std::vector<bool> gradient(trace.blocks.size(), false);
  const auto is_release = [](const TraceEvent& e) { return e.kind == Kind::kRelease; };
  const auto last_release =
      std::find_if(trace.events.rbegin(), trace.events.rend(), is_release).base();
  bool in_backward = false;
  for (auto event = trace.events.begin(); event != trace.events.end(); ++event) {
    if (event->kind == Kind::kFree) freed.at(event->id) = true;
    in_backward = (in_backward || event->kind == Kind::kUnpack) && event < last_release;
    if (in_backward && event->kind == Kind::kAlloc) gradient.at(event->id) = true;
  }
  // A step ends when the next one begins, whose batch is there by then: the blocks allocated last
  // that are as large as those found at the start and given back meanwhile.
  std::map<Bytes, std::int64_t> given_back;
  for (std::size_t b = 0; b < trace.blocks.size(); ++b) {
    if (trace.blocks[b].before_step && freed[b]) ++given_back[trace.blocks[b].bytes];
  }
  for (std::size_t b = trace.blocks.size(); b-- > 0;) {
    const TraceBlock& block = trace.blocks[b];
    const bool outlives = !freed[b] && !managed[b] && !block.ours && !block.before_step;
    if (!outlives || gradient[b]) continue;
    const auto place = given_back.find(block.bytes);
    const bool takes_a_place = place != given_back.end() && place->second > 0;
    if (takes_a_place) --place->second;
    persistent[b] = !takes_a_place;
  }
  return persistent;
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
  if (options.first_step)
    roles.persistent = persistentBlocks(trace, roles.managed);
  else
    roles.persistent.assign(trace.blocks.size(), false);
  return roles;
}

}  // namespace ebbtide::scheduler
