// LiveShares: whose the live blocks are, by the op that made each. Torch-free.
//
// Gathered when memory is out, from what a step's record knows of its blocks: no allocation pays
// for it. Not thread-safe.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <unordered_set>
#include <vector>

#include "ebbtide/allocator/memory_resource.hpp"

namespace ebbtide::plugin {

class LiveShares {
 public:
  struct Share {
    std::string made_by;
    std::int64_t blocks = 0;  // 0: not counted
    allocator::Bytes bytes = 0;
  };

  explicit LiveShares(const allocator::MemoryResource& memory) noexcept : memory_(memory) {}

  // Whoever names a block first has it. What is no live block of the memory is passed over.
  void add(const void* block, const std::string& made_by);
  // What nobody named.
  void nameRest(std::string name) { rest_ = std::move(name); }

  // The largest ones, the small others together, and last, if there is more, the rest of
  // `live_bytes`.
  std::vector<Share> largest(std::size_t most, allocator::Bytes live_bytes) const;

 private:
  const allocator::MemoryResource& memory_;
  std::unordered_set<const void*> seen_;
  std::map<std::string, Share> shares_;
  std::string rest_ = "not of a recorded step";
};

}  // namespace ebbtide::plugin
