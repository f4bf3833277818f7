#include "ebbtide/scheduler/kept_blocks.hpp"

#include <algorithm>
#include <cstdint>
#include <map>
#include <string>

namespace ebbtide::scheduler {
namespace {

using Kind = TraceEvent::Kind;

const char* const kAfterBackward = "the optimizer's step";
const char* const kOutsideOfOps = "outside of recorded operations";

std::size_t lastNode(const Trace& trace) {
  std::size_t last = trace.events.size();
  for (std::size_t i = 0; i < trace.events.size(); ++i) {
    if (trace.events[i].kind == Kind::kBackwardNode) last = i;
  }
  return last;
}

// In the order in which it is likely that a block replaces one that was there before: gradients do.
enum class Moment : std::uint8_t { kNode, kUpdate, kForward };

struct Survivor {
  BlockId block = kNone;
  Moment moment = Moment::kForward;
  std::string by;
};

std::vector<Survivor> survivorsOf(const Trace& trace) {
  std::vector<Survivor> by_block(trace.blocks.size());
  const std::size_t last = lastNode(trace);
  OpId op = kNone;
  std::string node;
  for (std::size_t i = 0; i < trace.events.size(); ++i) {
    const TraceEvent& event = trace.events[i];
    const auto id = static_cast<std::size_t>(event.id);
    if (event.kind == Kind::kOpBegin) op = event.id;
    if (event.kind == Kind::kOpEnd) op = kNone;
    if (event.kind == Kind::kBackwardNode) {
      const bool named = event.id >= 0 && id < trace.nodes.size();
      node = named ? trace.nodes[id] : "the backward pass";
    }
    if (event.kind == Kind::kFree) by_block.at(id).block = kNone;
    if (event.kind != Kind::kAlloc || trace.blocks.at(id).ours) continue;
    if (op != kNone) {
      by_block[id] = {event.id, Moment::kForward, trace.ops.at(static_cast<std::size_t>(op)).name};
    } else if (node.empty()) {
      by_block[id] = {event.id, Moment::kForward, kOutsideOfOps};
    } else if (i > last) {  // nothing tells where the last node ends: what it makes is among them
      by_block[id] = {event.id, Moment::kUpdate, kAfterBackward};
    } else {
      by_block[id] = {event.id, Moment::kNode, node};
    }
  }
  std::erase_if(by_block, [](const Survivor& survivor) { return survivor.block == kNone; });
  std::stable_sort(by_block.begin(), by_block.end(),
                   [](const Survivor& a, const Survivor& b) { return a.moment < b.moment; });
  return by_block;
}

}  // namespace

std::vector<KeptBlocks> keptBlocks(const Trace& trace) {
  std::map<Bytes, std::int64_t> freed;  // by size, of blocks that were there before
  for (const TraceEvent& event : trace.events) {
    if (event.kind != Kind::kFree) continue;
    const TraceBlock& block = trace.blocks.at(static_cast<std::size_t>(event.id));
    if (block.before_step && !block.ours) ++freed[block.bytes];
  }
  std::map<std::string, Bytes> by_maker;
  for (const Survivor& survivor : survivorsOf(trace)) {
    const Bytes bytes = trace.blocks[static_cast<std::size_t>(survivor.block)].bytes;
    const auto replaced = freed.find(bytes);
    if (replaced != freed.end() && replaced->second > 0) {
      --replaced->second;
      continue;
    }
    by_maker[survivor.by] += bytes;
  }
  std::vector<KeptBlocks> kept;
  for (const auto& [by, bytes] : by_maker)
    kept.push_back({by, bytes, by != kAfterBackward && by != kOutsideOfOps});
  std::sort(kept.begin(), kept.end(),
            [](const KeptBlocks& a, const KeptBlocks& b) { return a.bytes > b.bytes; });
  return kept;
}

}  // namespace ebbtide::scheduler
