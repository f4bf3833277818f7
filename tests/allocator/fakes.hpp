// Fakes at both boundaries: pages that are spied on and refused, events that a test completes.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <functional>
#include <iterator>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "ebbtide/allocator/host_address_space.hpp"
#include "ebbtide/allocator/stream_events.hpp"

namespace ebbtide::allocator::test {

inline constexpr Bytes kKiB = 1024;
inline constexpr Bytes kMiB = 1024 * kKiB;
inline constexpr Bytes kPage = 4 * kKiB;
inline constexpr Bytes kHugePage = 2 * kMiB;

inline std::size_t size(Bytes bytes) {
  return static_cast<std::size_t>(bytes);
}

// Host memory in pages of any size, each known to be mapped, unmapped or in a call. Whoever maps
// what is mapped, unmaps what is not, or lets two calls meet, makes badCalls() grow.
class SpySpace final : public AddressSpace {
 public:
  explicit SpySpace(Bytes page_bytes) : page_bytes_(page_bytes) {}
  ~SpySpace() override {
    for (auto& [begin, range] : ranges_) host_->release(begin, range.bytes);
  }

  Bytes pageBytes() const noexcept override { return page_bytes_; }

  void* reserve(Bytes bytes) noexcept override {
    if (refuse_reservations) return nullptr;
    auto* begin = static_cast<std::byte*>(host_->reserve(bytes));
    if (begin == nullptr) return nullptr;
    const std::lock_guard lock(mutex_);
    if (bytes % page_bytes_ != 0) ++bad_calls_;
    ranges_[begin] = {bytes, std::vector<Page>(size(bytes / page_bytes_), Page::kUnmapped)};
    return begin;
  }

  void release(void* begin, Bytes bytes) noexcept override {
    const std::lock_guard lock(mutex_);
    const auto found = ranges_.find(static_cast<std::byte*>(begin));
    if (found == ranges_.end() || found->second.bytes != bytes) {
      ++bad_calls_;
      return;
    }
    for (const Page page : found->second.pages) {
      if (page == Page::kMapped) mapped_bytes_ -= page_bytes_;
      if (page == Page::kBusy) ++bad_calls_;
    }
    ranges_.erase(found);
    ++releases;
    host_->release(begin, bytes);
  }

  bool map(void* begin, Bytes bytes) noexcept override {
    if (on_map) on_map(bytes);
    ++maps;
    {
      const std::lock_guard lock(mutex_);
      if (refuse_maps > 0 || mapped_bytes_ + bytes > capacity_bytes) {
        if (refuse_maps > 0) --refuse_maps;
        return false;
      }
      turn(begin, bytes, Page::kUnmapped, Page::kBusy);
      mapped_bytes_ += bytes;
      if (mapped_bytes_ > ceiling_bytes) ++over_ceiling;
      most_mapped_bytes_ = std::max<Bytes>(most_mapped_bytes_, mapped_bytes_);
    }
    const bool mapped = host_->map(begin, bytes);
    const std::lock_guard lock(mutex_);
    turn(begin, bytes, Page::kBusy, mapped ? Page::kMapped : Page::kUnmapped);
    if (!mapped) mapped_bytes_ -= bytes;
    return mapped;
  }

  void unmap(void* begin, Bytes bytes) noexcept override {
    if (on_unmap) on_unmap(begin, bytes);
    ++unmaps;
    {
      const std::lock_guard lock(mutex_);
      turn(begin, bytes, Page::kMapped, Page::kBusy);
    }
    host_->unmap(begin, bytes);
    const std::lock_guard lock(mutex_);
    turn(begin, bytes, Page::kBusy, Page::kUnmapped);
    mapped_bytes_ -= bytes;
  }

  // Does the block lie in mapped pages of one reservation?
  bool covers(const void* begin, Bytes bytes) const {
    const std::lock_guard lock(mutex_);
    const auto* at = static_cast<const std::byte*>(begin);
    const auto after = ranges_.upper_bound(const_cast<std::byte*>(at));
    if (after == ranges_.begin()) return false;
    const auto& [first, range] = *std::prev(after);
    if (at + bytes > first + range.bytes) return false;
    const auto from = size((at - first) / page_bytes_);
    const auto to = size((at + bytes - 1 - first) / page_bytes_);
    return std::all_of(range.pages.begin() + static_cast<std::ptrdiff_t>(from),
                       range.pages.begin() + static_cast<std::ptrdiff_t>(to) + 1,
                       [](Page page) { return page == Page::kMapped; });
  }

  void lockForFork() { mutex_.lock(); }
  void unlockAfterFork() { mutex_.unlock(); }

  Bytes mappedBytes() const noexcept { return mapped_bytes_; }
  Bytes mostMappedBytes() const noexcept { return most_mapped_bytes_; }
  int badCalls() const noexcept { return bad_calls_; }
  std::size_t reservations() const {
    const std::lock_guard lock(mutex_);
    return ranges_.size();
  }

  std::atomic<Bytes> capacity_bytes{kUnlimited};  // of the system: more is refused
  std::atomic<Bytes> ceiling_bytes{kUnlimited};   // the budget: more is counted
  std::atomic<int> over_ceiling{0};
  std::atomic<int> refuse_maps{0};  // so many of the next calls
  std::atomic<bool> refuse_reservations{false};
  std::atomic<int> maps{0}, unmaps{0}, releases{0};
  // Run at the start of every call, with no lock held; set them before there are threads.
  std::function<void(Bytes)> on_map;
  std::function<void(void*, Bytes)> on_unmap;

 private:
  enum class Page : std::uint8_t { kUnmapped, kMapped, kBusy };
  struct Range {
    Bytes bytes;
    std::vector<Page> pages;
  };

  // The mutex is held.
  void turn(void* begin, Bytes bytes, Page from, Page to) {
    auto* at = static_cast<std::byte*>(begin);
    const auto after = ranges_.upper_bound(at);
    if (bytes <= 0 || bytes % page_bytes_ != 0 || after == ranges_.begin()) {
      ++bad_calls_;
      return;
    }
    auto& [first, range] = *std::prev(after);
    if ((at - first) % page_bytes_ != 0 || at + bytes > first + range.bytes) {
      ++bad_calls_;
      return;
    }
    const std::size_t page = size((at - first) / page_bytes_);
    for (std::size_t i = page; i < page + size(bytes / page_bytes_); ++i) {
      if (range.pages[i] != from) ++bad_calls_;
      range.pages[i] = to;
    }
  }

  const Bytes page_bytes_;
  const std::unique_ptr<AddressSpace> host_ = makeHostAddressSpace();
  mutable std::mutex mutex_;
  std::map<std::byte*, Range> ranges_;
  std::atomic<Bytes> mapped_bytes_{0}, most_mapped_bytes_{0};
  std::atomic<int> bad_calls_{0};
};

// Every event is pending until the test, or a synchronize(), says otherwise.
class FakeEvents final : public StreamEvents {
 public:
  Event record(Stream stream) noexcept override {
    const std::lock_guard lock(mutex_);
    ++records;
    if (immediate) return Event::kDone;
    if (refuse_records) return Event::kNone;
    pending_[++last_] = stream;
    made_.insert(last_);
    return Event{last_};
  }
  bool isDone(Event event) noexcept override {
    const std::lock_guard lock(mutex_);
    ++queries;
    if (event == Event::kDone || event == Event::kNone) ++bad_calls_;
    return !pending_.contains(static_cast<std::uint64_t>(event));
  }
  void recycle(Event event) noexcept override {
    const std::lock_guard lock(mutex_);
    const auto id = static_cast<std::uint64_t>(event);
    pending_.erase(id);
    if (made_.erase(id) == 0) ++bad_calls_;  // each once, and none that was never made
  }
  bool synchronize(std::chrono::nanoseconds most) noexcept override {
    ++synchronizes;
    last_wait = most;
    if (stuck) {
      if (stuck_takes_time) std::this_thread::sleep_for(most);
      return false;
    }
    finishAll();
    if (on_synchronized) on_synchronized();
    return true;
  }

  void finishAll() {
    const std::lock_guard lock(mutex_);
    pending_.clear();
    ++all_finishes_;
  }
  void finish(Stream stream) {
    const std::lock_guard lock(mutex_);
    std::erase_if(pending_, [stream](const auto& event) { return event.second == stream; });
    ++finishes_[stream];
  }
  // The n-th event ever, from 1.
  void finish(std::uint64_t n) {
    const std::lock_guard lock(mutex_);
    pending_.erase(n);
  }
  // How often all that was queued on this stream by then was done.
  std::uint64_t finishes(Stream stream) const {
    const std::lock_guard lock(mutex_);
    const auto found = finishes_.find(stream);
    return all_finishes_ + (found == finishes_.end() ? 0 : found->second);
  }
  std::size_t pending() const {
    const std::lock_guard lock(mutex_);
    return pending_.size();
  }
  std::size_t unrecycled() const {
    const std::lock_guard lock(mutex_);
    return made_.size();
  }
  int badCalls() const noexcept { return bad_calls_; }

  void lockForFork() { mutex_.lock(); }
  void unlockAfterFork() { mutex_.unlock(); }

  std::atomic<bool> immediate{false}, refuse_records{false}, stuck{false};
  std::atomic<bool> stuck_takes_time{false};  // else a wait is refused at once
  std::atomic<int> records{0}, queries{0}, synchronizes{0};
  std::atomic<std::chrono::nanoseconds> last_wait{};
  std::function<void()> on_synchronized;  // all is done, but the caller does not know it yet

 private:
  mutable std::mutex mutex_;
  std::map<std::uint64_t, Stream> pending_;
  std::set<std::uint64_t> made_;  // and not recycled
  std::map<Stream, std::uint64_t> finishes_;
  std::uint64_t all_finishes_ = 0;
  std::uint64_t last_ = 0;
  std::atomic<int> bad_calls_{0};
};

}  // namespace ebbtide::allocator::test
