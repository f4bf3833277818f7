#include "ebbtide/scheduler/kept_blocks.hpp"

#include <algorithm>
#include <map>

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

// Per block: what made it; empty: it was there before, or is gone.
std::vector<std::string> makersOfSurvivors(const Trace& trace) {
  std::vector<std::string> makers(trace.blocks.size());
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
    if (event.kind == Kind::kFree) makers.at(id).clear();
    if (event.kind != Kind::kAlloc || trace.blocks.at(id).ours) continue;
    if (op != kNone) {
      makers[id] = trace.ops.at(static_cast<std::size_t>(op)).name;
    } else if (node.empty()) {
      makers[id] = kOutsideOfOps;
    } else {
      // Nothing tells where the last node ends: what it makes counts as the update's.
      makers[id] = i > last ? kAfterBackward : node;
    }
  }
  return makers;
}

}  // namespace

std::vector<KeptBlocks> keptBlocks(const Trace& trace) {
  std::map<Bytes, std::int64_t> freed;  // by size, of blocks that were there before
  for (const TraceEvent& event : trace.events) {
    if (event.kind != Kind::kFree) continue;
    const TraceBlock& block = trace.blocks.at(static_cast<std::size_t>(event.id));
    if (block.before_step && !block.ours) ++freed[block.bytes];
  }
  const std::vector<std::string> makers = makersOfSurvivors(trace);
  std::map<std::string, Bytes> by_maker;
  for (std::size_t b = 0; b < makers.size(); ++b) {
    if (makers[b].empty()) continue;
    const Bytes bytes = trace.blocks[b].bytes;
    const auto replaced = freed.find(bytes);
    if (replaced != freed.end() && replaced->second > 0) {
      --replaced->second;
      continue;
    }
    by_maker[makers[b]] += bytes;
  }
  std::vector<KeptBlocks> kept;
  for (const auto& [by, bytes] : by_maker) kept.push_back({by, bytes});
  std::sort(kept.begin(), kept.end(),
            [](const KeptBlocks& a, const KeptBlocks& b) { return a.bytes > b.bytes; });
  return kept;
}

}  // namespace ebbtide::scheduler
