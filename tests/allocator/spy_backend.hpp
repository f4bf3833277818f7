// Backends for the tests: heap pages (a sanitizer sees their ends) and a spy that counts, checks
// and refuses.
#pragma once

#include <gtest/gtest.h>

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#endif

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <span>
#include <utility>

#include "ebbtide/allocator/caching_resource.hpp"
#include "ebbtide/allocator/host_backend.hpp"

namespace ebbtide::allocator::test {

inline constexpr Bytes kKiB = 1024;
inline constexpr Bytes kMiB = 1024 * kKiB;
inline constexpr Bytes kPage = 4096;
inline constexpr Bytes kHeader = 64;
inline constexpr Bytes kChunk = 256 * kKiB;

// A request whose block is exactly these bytes, when they are pages of a large block.
inline std::size_t requestFor(Bytes block_bytes) {
  return static_cast<std::size_t>(block_bytes - kHeader);
}

// Ranges may be given back in parts, so an allocation is freed with its last page.
class HeapBackend final : public Backend {
 public:
  Bytes pageBytes() const noexcept override { return kPage; }

  void* map(Bytes bytes) noexcept override {
    if (bytes > 64 * 1024 * kMiB) return nullptr;  // not even asked of the heap
    auto* address = static_cast<char*>(std::aligned_alloc(kPage, static_cast<std::size_t>(bytes)));
    if (address == nullptr) return nullptr;
    const std::lock_guard lock(mutex_);
    allocations_[address] = {.bytes = bytes, .left = bytes};
    return address;
  }

  void unmap(void* address, Bytes bytes) noexcept override {
    const std::lock_guard lock(mutex_);
    auto* at = static_cast<char*>(address);
    while (bytes > 0) {
      const auto found = std::prev(allocations_.upper_bound(at));
      const Bytes part = std::min(bytes, found->first + found->second.bytes - at);
      poison(at, part);
      found->second.left -= part;
      if (found->second.left == 0) {
        unpoison(found->first, found->second.bytes);
        std::free(found->first);
        allocations_.erase(found);
      }
      at += part;
      bytes -= part;
    }
  }

  void* gather(std::span<const PageRange> pieces, Bytes bytes) noexcept override {
    void* target = map(bytes);
    for (const PageRange& piece : pieces) unmap(piece.begin, piece.bytes);
    return target;
  }

 private:
  struct Allocation {
    Bytes bytes;
    Bytes left;
  };

#if defined(__SANITIZE_ADDRESS__)
  static void poison(char* at, Bytes bytes) {
    __asan_poison_memory_region(at, static_cast<std::size_t>(bytes));
  }
  static void unpoison(char* at, Bytes bytes) {
    __asan_unpoison_memory_region(at, static_cast<std::size_t>(bytes));
  }
#else
  static void poison(char*, Bytes) {}
  static void unpoison(char*, Bytes) {}
#endif

  std::mutex mutex_;
  std::map<char*, Allocation> allocations_;
};

// Outlives the backend, which the resource owns.
struct SpyLog {
  std::mutex mutex;
  std::map<char*, Bytes> mappings;  // guarded by the mutex; neighbours are one
  std::set<char*> seams;        // guarded by the mutex; where one of the backend's ranges begins
  Bytes mapped_bytes = 0;       // guarded by the mutex
  Bytes most_mapped_bytes = 0;  // guarded by the mutex
  int bad_calls = 0;            // not mapped, not in pages, or a piece with a seam inside

  std::atomic<Bytes> ceiling_bytes{kUnlimited};  // the budget
  std::atomic<int> over_ceiling{0};              // events that found more mapped than that
  std::atomic<int> maps{0};
  std::atomic<int> unmaps{0};
  std::atomic<int> gathers{0};
  std::atomic<Bytes> fresh_bytes{0};     // by map, or added by gather
  std::atomic<Bytes> returned_bytes{0};  // by unmap

  std::atomic<int> refuse_maps{0};  // so many of the next calls return nullptr
  std::atomic<int> refuse_gathers{0};
  std::function<void()> on_map;    // runs at the start of every map()
  std::function<void()> on_unmap;  // runs at the start of every unmap()

  bool covers(const void* block, Bytes bytes) {
    const std::lock_guard lock(mutex);
    auto* begin = static_cast<char*>(const_cast<void*>(block));
    auto after = mappings.upper_bound(begin);
    if (after == mappings.begin()) return false;
    const auto& [start, length] = *std::prev(after);
    return begin + bytes <= start + length;
  }
};

class SpyBackend final : public Backend {
 public:
  SpyBackend(std::unique_ptr<Backend> upstream, std::shared_ptr<SpyLog> log)
      : upstream_(std::move(upstream)), log_(std::move(log)) {}

  Bytes pageBytes() const noexcept override { return upstream_->pageBytes(); }

  void* map(Bytes bytes) noexcept override {
    ++log_->maps;
    if (log_->on_map) log_->on_map();
    if (takeOne(log_->refuse_maps)) return nullptr;
    void* address = upstream_->map(bytes);
    if (address == nullptr) return nullptr;
    log_->fresh_bytes += bytes;
    const std::lock_guard lock(log_->mutex);
    add(address, bytes);
    return address;
  }

  void unmap(void* address, Bytes bytes) noexcept override {
    ++log_->unmaps;
    log_->returned_bytes += bytes;
    if (log_->on_unmap) log_->on_unmap();
    {
      const std::lock_guard lock(log_->mutex);
      remove(address, bytes);
    }
    upstream_->unmap(address, bytes);
  }

  void* gather(std::span<const PageRange> pieces, Bytes bytes) noexcept override {
    ++log_->gathers;
    if (pieces.empty()) ++log_->bad_calls;
    Bytes moved = 0;
    const std::lock_guard lock(log_->mutex);  // across the call: another map may get an old range
    for (const PageRange& piece : pieces) {
      requireOneRange(piece);
      remove(piece.begin, piece.bytes);
      moved += piece.bytes;
    }
    if (moved > bytes) ++log_->bad_calls;
    if (takeOne(log_->refuse_gathers)) {
      for (const PageRange& piece : pieces) upstream_->unmap(piece.begin, piece.bytes);
      return nullptr;
    }
    void* target = upstream_->gather(pieces, bytes);
    if (target == nullptr) return nullptr;
    log_->fresh_bytes += bytes - moved;
    add(target, bytes);
    auto* end = static_cast<char*>(target);
    for (const PageRange& piece : pieces) log_->seams.insert(end += piece.bytes);
    return target;
  }

 private:
  static bool takeOne(std::atomic<int>& left) {
    int now = left.load();
    while (now > 0 && !left.compare_exchange_weak(now, now - 1)) {
    }
    return now > 0;
  }

  void add(void* address, Bytes bytes) {
    auto* begin = static_cast<char*>(address);
    if (bytes <= 0 || bytes % pageBytes() != 0 || overlaps(begin, bytes)) ++log_->bad_calls;
    log_->seams.insert(begin);
    log_->seams.insert(begin + bytes);
    log_->mapped_bytes += bytes;
    log_->most_mapped_bytes = std::max(log_->most_mapped_bytes, log_->mapped_bytes);
    if (log_->mapped_bytes > log_->ceiling_bytes) ++log_->over_ceiling;
    auto next = log_->mappings.upper_bound(begin);
    if (next != log_->mappings.end() && next->first == begin + bytes) {
      bytes += next->second;
      next = log_->mappings.erase(next);
    }
    if (next != log_->mappings.begin()) {
      auto& [low, length] = *std::prev(next);
      if (low + length == begin) {
        length += bytes;
        return;
      }
    }
    log_->mappings.emplace(begin, bytes);
  }

  bool overlaps(char* begin, Bytes bytes) const {
    const auto next = log_->mappings.lower_bound(begin);
    if (next != log_->mappings.end() && next->first < begin + bytes) return true;
    return next != log_->mappings.begin() &&
           std::prev(next)->first + std::prev(next)->second > begin;
  }

  void remove(void* address, Bytes bytes) {
    auto* begin = static_cast<char*>(address);
    char* const end = begin + bytes;
    const auto after = log_->mappings.upper_bound(begin);
    if (after == log_->mappings.begin() || bytes % pageBytes() != 0 ||
        std::prev(after)->first + std::prev(after)->second < end) {
      ++log_->bad_calls;
      return;
    }
    const auto [low, length] = *std::prev(after);
    log_->mappings.erase(std::prev(after));
    if (low < begin) log_->mappings.emplace(low, begin - low);
    if (end < low + length) log_->mappings.emplace(end, low + length - end);
    log_->seams.erase(log_->seams.lower_bound(begin), log_->seams.upper_bound(end));
    log_->mapped_bytes -= bytes;
  }

  void requireOneRange(const PageRange& piece) {
    auto* begin = static_cast<char*>(piece.begin);
    const auto seam = log_->seams.upper_bound(begin);
    if (seam != log_->seams.end() && *seam < begin + piece.bytes) ++log_->bad_calls;
  }

  std::unique_ptr<Backend> upstream_;
  std::shared_ptr<SpyLog> log_;
};

enum class Source { kHost, kHeap };

// A resource over a spied backend. Whatever a test does, its mappings must be balanced at the end.
class SpiedResource {
 public:
  explicit SpiedResource(Source source = Source::kHeap)
      : log(std::make_shared<SpyLog>()),
        resource(std::make_unique<CachingResource>(
            std::make_unique<SpyBackend>(makeBackend(source), log))) {}

  ~SpiedResource() {
    const Statistics last = resource->statistics();
    EXPECT_EQ(last.allocated_bytes, 0) << "the test leaves live blocks";
    EXPECT_EQ(last.mapped_bytes, log->mapped_bytes);
    resource.reset();
    EXPECT_EQ(log->mapped_bytes, 0);
    EXPECT_TRUE(log->mappings.empty());
    EXPECT_EQ(log->bad_calls, 0);
    EXPECT_EQ(log->over_ceiling, 0);
  }

  // A hard budget, watched by the spy.
  void limit(Bytes budget_bytes) {
    log->ceiling_bytes = budget_bytes;
    resource->setBudget(budget_bytes);
    resource->allowOverrun(false);
  }

  CachingResource* operator->() const { return resource.get(); }

  std::shared_ptr<SpyLog> log;
  std::unique_ptr<CachingResource> resource;

 private:
  static std::unique_ptr<Backend> makeBackend(Source source) {
    if (source == Source::kHost) return makeHostBackend();
    return std::make_unique<HeapBackend>();
  }
};

}  // namespace ebbtide::allocator::test
