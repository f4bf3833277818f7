// BlockWatch: the watch on the block that a value was born in, since the program may free it.
// DroppedBlocks allows one watch at an address. Torch-free.
//
//   none ─┬─ watch() ─► watched: kept at its free if it was written unseen ─┬─ end… ─► none
//         └─ guard() ─► guarded: kept at its free, for replays to read ─────┘
//
// A transition that is out of order changes nothing. Thread rule: its owner's lock.
#pragma once

#include <cstdint>
#include <utility>

#include "memory/dropped_blocks.hpp"

namespace ebbtide::plugin {

class BlockWatch {
 public:
  bool watched() const noexcept { return kind_ == Kind::kWatched; }
  bool guarded() const noexcept { return kind_ == Kind::kGuarded; }

  // False: refused, something has an eye on it.
  bool watch(const void* block, const ByteRange& covered, const Fingerprint& print) {
    if (kind_ != Kind::kNone) return false;
    ticket_ = droppedBlocks().watch(block, covered, print);
    kind_ = Kind::kWatched;
    return true;
  }
  bool guard(const void* block) {
    if (kind_ != Kind::kNone) return false;
    ticket_ = droppedBlocks().hold(block);
    if (ticket_ == 0) return false;
    kind_ = Kind::kGuarded;
    return true;
  }
  // Ends the watch (guard). Returns the block if it was kept at its free: the caller frees it.
  // nullptr: it was not kept, or had no watch (guard).
  void* endWatch(const void* block) noexcept { return end(Kind::kWatched, block); }
  void* endGuard(const void* block) noexcept { return end(Kind::kGuarded, block); }

 private:
  enum class Kind : std::uint8_t { kNone, kWatched, kGuarded };

  void* end(Kind kind, const void* block) noexcept {
    if (kind_ != kind) return nullptr;
    kind_ = Kind::kNone;
    return droppedBlocks().withdraw(block, std::exchange(ticket_, 0));
  }

  DroppedBlocks::Ticket ticket_ = 0;
  Kind kind_ = Kind::kNone;
};

}  // namespace ebbtide::plugin
