#include "memory/later_blocks.hpp"

#include <map>
#include <set>
#include <utility>

#include "base/thread_scopes.hpp"

namespace ebbtide::plugin {
void LaterBlocks::start(std::int64_t step, Bytes base_bytes) {
  const std::lock_guard lock(mutex_);
  blocks_.clear();
  replaced_.clear();
  count_ = 0;
  ++round_;
  step_ = step;
  base_bytes_ = base_bytes;
  full_ = false;
}

void LaterBlocks::beginStep(std::int64_t step, Bytes base_bytes) {
  const std::lock_guard lock(mutex_);
  const Bytes risen = base_bytes - std::exchange(base_bytes_, base_bytes);
  std::map<std::string, Bytes> made;
  for (const auto& [at, block] : blocks_) {
    if (block.round == round_) made[block.by] += block.bytes;
  }
  std::set<std::string> stay;
  for (const auto& [by, bytes] : made) {
    const Bytes replaced = replaced_.contains(by) ? replaced_[by] : 0;
    if (!full_ && bytes > replaced && bytes - replaced <= 2 * risen) {
      stay.insert(by);
    } else {
      replaced_[by] = bytes;
    }
  }
  std::erase_if(blocks_, [&](const auto& entry) {
    return entry.second.round == round_ && !stay.contains(entry.second.by);
  });
  count_ = blocks_.size();
  ++round_;
  step_ = step;
  full_ = false;
}

std::optional<LaterBlocks::Group> LaterBlocks::largest() const {
  const std::lock_guard lock(mutex_);
  std::map<std::string, std::pair<Group, std::set<std::int64_t>>> by_op;  // with their rounds
  for (const auto& [at, block] : blocks_) {
    if (block.round == round_) continue;
    auto& [group, rounds] = by_op[block.by];
    const bool first = group.blocks++ == 0;
    group.bytes += block.bytes;
    if (first) group.each_bytes = block.bytes;
    if (group.each_bytes != block.bytes) group.each_bytes = 0;
    if (first || block.step < group.step) group.step = block.step;
    rounds.insert(block.round);
  }
  std::optional<Group> most;
  for (auto& [by, entry] : by_op) {
    auto& [group, rounds] = entry;
    if (most && group.bytes <= most->bytes) continue;
    group.by = by;
    group.times = static_cast<std::int64_t>(rounds.size());
    most = group;
  }
  return most;
}

std::vector<std::pair<const void*, std::string>> LaterBlocks::sinceStep() const {
  std::vector<std::pair<const void*, std::string>> made;
  const std::lock_guard lock(mutex_);
  for (const auto& [at, block] : blocks_) {
    if (block.round == round_) made.emplace_back(at, block.by);
  }
  return made;
}

void LaterBlocks::onAllocated(const void* block, std::size_t request_bytes) noexcept {
  const char* const by = unrecordedOp().name;
  if (by == nullptr || request_bytes < static_cast<std::size_t>(kLeastBytes)) return;
  if (inTrainingOp() || QuietScope::active()) return;
  const std::lock_guard lock(mutex_);
  try {
    if (blocks_.size() < kMostBlocks) {
      blocks_.insert_or_assign(block, Block{static_cast<Bytes>(request_bytes), by, round_, step_});
      count_.store(blocks_.size(), std::memory_order_relaxed);
      return;
    }
  } catch (...) {  // no memory for it: this round is not told
  }
  full_ = true;
}

void LaterBlocks::onFreed(const void* block) noexcept {
  if (count_.load(std::memory_order_relaxed) == 0) return;
  const std::lock_guard lock(mutex_);
  if (blocks_.erase(block) > 0) count_.store(blocks_.size(), std::memory_order_relaxed);
}

}  // namespace ebbtide::plugin
