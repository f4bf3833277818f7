// BlockTable: what one device's memory holds, for statistics and snapshots: its blocks, and the
// runs of mapped pages that they lie in.
//
//   run     ├──────────────── pages of one kind ────────────────┤     not mapped
//   blocks  ├ live ┤ idle ├ awaiting streams ┤ live ├   idle    ┤
//
// Not thread-safe: HeapLedger's lock guards it.
#pragma once

#include <c10/core/CachingDeviceAllocator.h>

#include <algorithm>
#include <map>
#include <memory>

#include "ebbtide/allocator/bytes.hpp"

namespace ebbtide::plugin::cuda {

using allocator::Bytes;

// Whose memory it is: torch's stream and pool ({0, 0}: none of its private ones).
struct Owner {
  allocator::Stream name = allocator::Stream::kDefault;
  c10::MempoolId_t pool = {0, 0};
  bool small = false;

  bool operator==(const Owner&) const = default;
};

struct Block {
  Bytes bytes = 0;
  Bytes requested_bytes = 0;
  Owner owner;
  bool shared = false;       // with streams that are not its own
  bool awaiting = false;     // freed, but streams may still use it
  std::uint64_t number = 0;  // of the allocation: an address comes again
  std::shared_ptr<c10::GatheredContext> context;
};

struct Run {
  std::byte* end;
  Owner owner;
};

class BlockTable {
 public:
  using Blocks = std::map<const std::byte*, Block>;
  using Runs = std::map<std::byte*, Run>;

  void insert(const void* at, Block block) { blocks_[bytesAt(at)] = std::move(block); }
  Block* find(const void* at) noexcept {
    const auto found = blocks_.find(bytesAt(at));
    return found == blocks_.end() ? nullptr : &found->second;
  }
  void erase(const void* at) noexcept { blocks_.erase(bytesAt(at)); }

  // How many runs of the owner's class (small or large) there are more. Neighbours of one owner
  // are one run.
  int addPages(std::byte* begin, Bytes bytes, const Owner& owner);
  // visit(begin, owner, bytes, runs more) for each part of the range that is in a run.
  template <typename Visit>
  void removePages(std::byte* begin, Bytes bytes, Visit&& visit) {
    std::byte* const end = begin + bytes;
    while (begin < end) {
      const auto run = runAt(begin);
      if (run == runs_.end()) return;
      std::byte* const part_end = std::min(end, run->second.end);
      const Owner owner = run->second.owner;
      const int more = cut(run, begin, part_end);
      visit(begin, owner, static_cast<Bytes>(part_end - begin), more);
      begin = part_end;
    }
  }

  const Blocks& blocks() const noexcept { return blocks_; }
  const Runs& runs() const noexcept { return runs_; }

 private:
  static const std::byte* bytesAt(const void* at) noexcept {
    return static_cast<const std::byte*>(at);
  }
  Runs::iterator runAt(std::byte* at) noexcept;
  int cut(Runs::iterator run, std::byte* begin, std::byte* end);

  Blocks blocks_;
  Runs runs_;
};

}  // namespace ebbtide::plugin::cuda
