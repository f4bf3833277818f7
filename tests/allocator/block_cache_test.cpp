// The cache against a model, with so many sizes that every bucket holds several.
#include "block_cache.hpp"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <array>
#include <map>
#include <random>
#include <set>
#include <vector>

namespace ebbtide::allocator {
namespace {

class ModelledCache {
 public:
  ModelledCache() : blocks_(kBlocks) {
    for (BlockHeader& block : blocks_) outside_.push_back(&block);
  }

  void push(Bytes bytes) {
    if (outside_.empty()) return;
    BlockHeader* block = outside_.back();
    outside_.pop_back();
    block->block_bytes = bytes;
    cache_.push(block);
    model_[bytes].push_back(block);
    bytes_ += bytes;
  }

  void pop(Bytes bytes) {
    const auto found = model_.find(bytes);
    expectTaken(cache_.pop(bytes), found);
  }
  void popSmallestAtLeast(Bytes bytes) {
    expectTaken(cache_.popSmallestAtLeast(bytes), model_.lower_bound(bytes));
  }
  void popLargest() {
    expectTaken(cache_.popLargest(), model_.empty() ? model_.end() : std::prev(model_.end()));
  }

  void removeAny(std::uint64_t dice) {
    if (model_.empty()) return;
    const auto from = std::next(model_.begin(), static_cast<std::ptrdiff_t>(dice % model_.size()));
    std::vector<BlockHeader*>& blocks = from->second;
    const auto at = blocks.begin() + static_cast<std::ptrdiff_t>(dice / 64 % blocks.size());
    cache_.remove(*at);
    outside_.push_back(*at);
    blocks.erase(at);
    bytes_ -= from->first;
    if (blocks.empty()) model_.erase(from);
  }

  void popAll() {
    std::set<BlockHeader*> expected;
    for (const auto& [bytes, blocks] : model_) expected.insert(blocks.begin(), blocks.end());
    std::set<BlockHeader*> taken;
    for (BlockHeader* block = cache_.popAll(); block != nullptr; block = block->next) {
      EXPECT_TRUE(taken.insert(block).second);
    }
    EXPECT_EQ(taken, expected);
    outside_.insert(outside_.end(), taken.begin(), taken.end());
    model_.clear();
    bytes_ = 0;
  }

  void check() const {
    ASSERT_EQ(cache_.bytes(), bytes_);
    ASSERT_EQ(cache_.empty(), model_.empty());
    ASSERT_EQ(cache_.count(), kBlocks - outside_.size());
  }

 private:
  using Model = std::map<Bytes, std::vector<BlockHeader*>>;  // of one size: last in, first out

  void expectTaken(BlockHeader* taken, Model::iterator from) {
    if (from == model_.end()) {
      EXPECT_EQ(taken, nullptr);
      return;
    }
    ASSERT_EQ(taken, from->second.back());
    bytes_ -= from->first;
    from->second.pop_back();
    if (from->second.empty()) model_.erase(from);
    outside_.push_back(taken);
  }

  static constexpr std::size_t kBlocks = 8192;

  BlockCache cache_;
  std::vector<BlockHeader> blocks_;
  std::vector<BlockHeader*> outside_;
  Model model_;
  Bytes bytes_ = 0;
};

TEST(BlockCacheTest, DoesWhatTheModelDoes) {
  std::mt19937_64 random(7);
  ModelledCache cache;
  for (int operation = 0; operation < 200'000; ++operation) {
    // 6000 sizes in 1024 buckets.
    const Bytes bytes = 4096 * (1 + static_cast<Bytes>(random() % 6000));
    const std::uint64_t dice = random() % 10'000;
    if (dice == 0) {
      cache.popAll();
    } else if (dice < 200) {
      cache.popLargest();
    } else if (dice < 300) {
      cache.removeAny(random());
    } else if (dice < 2000) {
      cache.popSmallestAtLeast(bytes);
    } else if (dice < 4500) {
      cache.pop(bytes);
    } else {
      cache.push(bytes);
    }
    ASSERT_NO_FATAL_FAILURE(cache.check());
  }
  cache.popAll();
}

// Five blocks of one size, each on its own page. Taking the second oldest out writes to the two
// next to it and reads no other: a walk over the list would read the newest, which faults here.
TEST(BlockCacheTest, RemovingTouchesTheNeighboursOnly) {
  constexpr std::size_t kPage = 4096;
  const auto page_bytes = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  void* pages =
      ::mmap(nullptr, 5 * page_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(pages, MAP_FAILED);
  std::array<BlockHeader*, 5> blocks;
  BlockCache cache;
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    blocks[i] = makeFreeBlock(static_cast<std::byte*>(pages) + i * page_bytes, kPage);
    cache.push(blocks[i]);
  }
  ASSERT_EQ(::mprotect(blocks[3], 2 * page_bytes, PROT_NONE), 0);
  cache.remove(blocks[1]);
  ASSERT_EQ(::mprotect(blocks[3], 2 * page_bytes, PROT_READ | PROT_WRITE), 0);
  for (const int left : {4, 3, 2, 0}) EXPECT_EQ(cache.pop(kPage), blocks[left]);
  EXPECT_TRUE(cache.empty());
  ::munmap(pages, 5 * page_bytes);
}

}  // namespace
}  // namespace ebbtide::allocator
