// Backends for the tests: heap pages (a sanitizer sees their ends) and a spy that counts, checks
// and refuses.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
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

class HeapBackend final : public Backend {
 public:
  Bytes pageBytes() const noexcept override { return kPage; }
  void* map(Bytes bytes) noexcept override {
    if (bytes > 64 * 1024 * kMiB) return nullptr;  // not even asked of the heap
    return std::aligned_alloc(kPage, static_cast<std::size_t>(bytes));
  }
  void unmap(void* address, Bytes) noexcept override { std::free(address); }
  void* resize(void* address, Bytes, Bytes new_bytes) noexcept override {
    void* moved = map(new_bytes);
    if (moved != nullptr) std::free(address);
    return moved;
  }
};

// Outlives the backend, which the resource owns.
struct SpyLog {
  std::mutex mutex;
  std::map<char*, Bytes> mappings;  // guarded by the mutex
  Bytes mapped_bytes = 0;           // guarded by the mutex
  Bytes most_mapped_bytes = 0;      // guarded by the mutex
  int bad_calls = 0;                // unmapped or resized what was not mapped; sizes not in pages

  std::atomic<Bytes> ceiling_bytes{kUnlimited};  // the budget
  std::atomic<int> over_ceiling{0};              // events that found more mapped than that
  std::atomic<int> maps{0};
  std::atomic<int> unmaps{0};
  std::atomic<int> resizes{0};

  std::atomic<int> refuse_maps{0};  // so many of the next calls return nullptr
  std::atomic<int> refuse_resizes{0};
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
    const std::lock_guard lock(log_->mutex);
    add(address, bytes);
    return address;
  }

  void unmap(void* address, Bytes bytes) noexcept override {
    ++log_->unmaps;
    if (log_->on_unmap) log_->on_unmap();
    {
      const std::lock_guard lock(log_->mutex);
      remove(address, bytes);
    }
    upstream_->unmap(address, bytes);
  }

  void* resize(void* address, Bytes old_bytes, Bytes new_bytes) noexcept override {
    ++log_->resizes;
    if (takeOne(log_->refuse_resizes)) return nullptr;
    const std::lock_guard lock(log_->mutex);  // across the call: another map may get the old range
    void* moved = upstream_->resize(address, old_bytes, new_bytes);
    if (moved == nullptr) return nullptr;
    remove(address, old_bytes);
    add(moved, new_bytes);
    return moved;
  }

 private:
  static bool takeOne(std::atomic<int>& left) {
    int now = left.load();
    while (now > 0 && !left.compare_exchange_weak(now, now - 1)) {
    }
    return now > 0;
  }

  void add(void* address, Bytes bytes) {
    if (bytes <= 0 || bytes % pageBytes() != 0) ++log_->bad_calls;
    if (!log_->mappings.emplace(static_cast<char*>(address), bytes).second) ++log_->bad_calls;
    log_->mapped_bytes += bytes;
    log_->most_mapped_bytes = std::max(log_->most_mapped_bytes, log_->mapped_bytes);
    if (log_->mapped_bytes > log_->ceiling_bytes) ++log_->over_ceiling;
  }

  void remove(void* address, Bytes bytes) {
    const auto found = log_->mappings.find(static_cast<char*>(address));
    if (found == log_->mappings.end() || found->second != bytes) {
      ++log_->bad_calls;
      return;
    }
    log_->mappings.erase(found);
    log_->mapped_bytes -= bytes;
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
