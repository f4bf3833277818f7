// LaterBlocks: what came to live outside of recorded operations and of the optimizer's step since
// the budget was judged (a second network, an average of the weights), by the op that made it.
// Torch-free.
//
//   a step begins ─► blocks of such ops are noted, those that are freed forgotten
//     ─► the next one begins: an op's stay if the base grew by at least half of what they add (a
//        smaller batch may hide the rest). Else they replaced older ones, and as many bytes of
//        that op are taken to do so again
//
// Thread rule: any. One mutex, under which nothing else is called.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "ebbtide/allocator/observed_resource.hpp"

namespace ebbtide::plugin {

class LaterBlocks final : public allocator::BlockWatcher {
 public:
  using Bytes = allocator::Bytes;

  static constexpr Bytes kLeastBytes = 64 << 10;
  static constexpr std::size_t kMostBlocks = 4096;

  struct Group {
    std::string by;
    std::int64_t blocks = 0;
    Bytes bytes = 0, each_bytes = 0;  // each: 0: they differ
    std::int64_t step = 0;            // the first block came after it began
    std::int64_t times = 0;           // steps in which some came
  };

  // With this step; nothing is known of what was before.
  void start(std::int64_t step, Bytes base_bytes);
  void beginStep(std::int64_t step, Bytes base_bytes);
  // The op that most bytes are of, of those that stayed.
  std::optional<Group> largest() const;
  // Those that came since the last step began, with their ops; a caller finds them freed, perhaps.
  std::vector<std::pair<const void*, std::string>> sinceStep() const;

  void onAllocated(const void* block, std::size_t request_bytes) noexcept override;
  void onFreed(const void* block) noexcept override;

  void lockForFork() { mutex_.lock(); }
  void unlockAfterFork() { mutex_.unlock(); }

 private:
  struct Block {
    Bytes bytes = 0;
    std::string by;
    std::int64_t round = 0, step = 0;
  };

  mutable std::mutex mutex_;
  std::unordered_map<const void*, Block> blocks_;
  std::atomic<std::size_t> count_{0};  // of blocks_: most frees need no more than this
  std::int64_t round_ = 0, step_ = 0;  // round: from one begin to the next
  std::unordered_map<std::string, Bytes> replaced_;  // by op, in the last round that had some
  Bytes base_bytes_ = 0;
  bool full_ = false;  // not all of this round's are noted
};

}  // namespace ebbtide::plugin
