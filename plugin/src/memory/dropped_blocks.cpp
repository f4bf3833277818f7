#include "memory/dropped_blocks.hpp"

namespace ebbtide::plugin {

DroppedBlocks::Ticket DroppedBlocks::watch(const void* block, ByteRange covered,
                                           Fingerprint print) {
  std::lock_guard lock(mutex_);
  const Ticket ticket = ++last_ticket_;
  if (watches_.insert_or_assign(block, Watch{ticket, covered, print}).second) ++count_;
  return ticket;
}

DroppedBlocks::Ticket DroppedBlocks::hold(const void* block) {
  std::lock_guard lock(mutex_);
  const Ticket ticket = ++last_ticket_;
  if (!watches_.try_emplace(block, Watch{.ticket = ticket}).second) return 0;
  ++count_;
  return ticket;
}

void* DroppedBlocks::withdraw(const void* block, Ticket ticket) noexcept {
  std::lock_guard lock(mutex_);
  const auto found = watches_.find(block);
  if (found == watches_.end() || found->second.ticket != ticket) return nullptr;
  const bool kept = found->second.freed;
  watches_.erase(found);
  --count_;
  return kept ? const_cast<void*>(block) : nullptr;
}

bool DroppedBlocks::keepIfWritten(void* block) noexcept {
  if (count_.load(std::memory_order_relaxed) == 0) return false;
  Watch watch;
  {
    std::lock_guard lock(mutex_);
    const auto found = watches_.find(block);
    if (found == watches_.end() || found->second.freed) return false;
    watch = found->second;
  }
  const bool written =
      !watch.print || !watch.print->isOf(watch.covered.in(block), watch.covered.bytes());
  std::lock_guard lock(mutex_);
  const auto found = watches_.find(block);
  if (found == watches_.end() || found->second.ticket != watch.ticket) return false;  // withdrawn
  found->second.freed = written;
  if (!written) {
    watches_.erase(found);
    --count_;
  }
  return written;
}

DroppedBlocks& droppedBlocks() {
  static auto* const all = new DroppedBlocks();  // blocks may be freed while the process exits
  return *all;
}

}  // namespace ebbtide::plugin
