#include "observe/snapshot_file.hpp"

#include <algorithm>
#include <cstring>
#include <map>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/system_time.hpp"
#include "ebbtide/allocator/bytes.hpp"
#include "observe/pickle.hpp"

namespace ebbtide::plugin {
namespace {

using allocator::Bytes;
using allocator::MappedExtent;

constexpr Bytes kLeastLarge = 32 << 10;  // blocks of pages of their own

std::int64_t addressOf(const void* pointer) noexcept {
  return static_cast<std::int64_t>(reinterpret_cast<std::uintptr_t>(pointer));
}

struct Segment {
  std::vector<MappedExtent> extents;
  bool mapped = true;

  const std::byte* end() const noexcept { return extents.back().begin + extents.back().bytes; }
  template <typename Of>
  Bytes sum(Of&& of) const {
    Bytes bytes = 0;
    for (const MappedExtent& extent : extents) bytes += of(extent) ? extent.bytes : 0;
    return bytes;
  }
};

// Those that touch, of one stream.
std::vector<Segment> joined(const allocator::MappedExtents& extents, bool mapped) {
  std::vector<Segment> segments;
  for (const MappedExtent& extent : extents) {
    const bool touches = !segments.empty() && segments.back().end() == extent.begin &&
                         segments.back().extents.back().stream == extent.stream;
    if (!touches) segments.emplace_back().mapped = mapped;
    segments.back().extents.push_back(extent);
  }
  return segments;
}

// Where blocks of the history lay that is not mapped any more: the viewer looks for a segment of
// every block that it draws.
allocator::MappedExtents unmappedSince(const allocator::MappedExtents& mapped,
                                       const MemoryHistory& history) {
  std::map<const std::byte*, const std::byte*> gone;  // begin, end; apart
  const auto cut = [&](const std::byte* begin, const std::byte* end) {
    auto next = std::upper_bound(
        mapped.begin(), mapped.end(), begin,
        [](const std::byte* at, const MappedExtent& extent) { return at < extent.begin; });
    if (next != mapped.begin()) --next;
    for (; begin < end; ++next) {
      const std::byte* const until =
          next == mapped.end() ? end : std::clamp(next->begin, begin, end);
      if (begin < until) {
        auto& known = gone[begin];
        known = std::max(known, until);
      }
      if (next == mapped.end()) return;
      begin = std::max(begin, next->begin + next->bytes);
    }
  };
  history.events().forEach([&](const MemoryEvent& event) {
    const auto* const begin = static_cast<const std::byte*>(event.block);
    cut(begin, begin + event.bytes);
  });
  allocator::MappedExtents extents;
  const std::byte* covered = nullptr;
  for (const auto& [first, end] : gone) {
    const std::byte* const begin = std::max(first, covered);
    if (begin >= end) continue;
    extents.push_back({begin, end - begin, false, allocator::Stream::kDefault});
    covered = end;
  }
  return extents;
}

class Writer {
 public:
  Writer(const MemoryHistory& history, metrics::WholeFile& file)
      : history_(history), pickle_(file) {}

  void write(const allocator::MappedExtents& mapped) {
    history_.events().forEach([this](const MemoryEvent& event) {
      if (event.allocated) made_by_[event.block] = event.by;
    });
    std::vector<Segment> segments = joined(mapped, true);
    for (Segment& segment : joined(unmappedSince(mapped, history_), false))
      segments.push_back(std::move(segment));
    pickle_.dict([&] {
      pickle_.key("segments");
      pickle_.list([&] {
        for (const Segment& segment : segments) add(segment);
      });
      pickle_.key("device_traces");
      pickle_.list([&] { addEvents(); });
      pickle_.key("allocator_settings");
      pickle_.dict([] {});
      pickle_.key("external_annotations");
      pickle_.list([] {});
    });
    pickle_.end();
  }

 private:
  void entry(const char* key, std::int64_t value) {
    pickle_.key(key);
    pickle_.number(value);
  }
  void entry(const char* key, const char* value) {
    pickle_.key(key);
    pickle_.text(value);
  }

  void addFrames(const WorkInHand& by) {
    pickle_.key("frames");
    pickle_.list([&] {
      if (*by.what == '\0') return;
      pickle_.dict([&] {
        entry("name", by.what);
        entry("filename", by.kind);
        entry("line", std::int64_t{0});
      });
    });
  }

  void add(const Segment& segment) {
    const auto live = [](const MappedExtent& extent) { return extent.live; };
    const Bytes live_bytes = segment.sum(live);
    const bool large =
        std::any_of(segment.extents.begin(), segment.extents.end(),
                    [](const MappedExtent& extent) { return extent.bytes > kLeastLarge; });
    pickle_.dict([&] {
      entry("device", std::int64_t{0});
      entry("address", addressOf(segment.extents.front().begin));
      entry("total_size", segment.sum([](const MappedExtent&) { return true; }));
      entry("allocated_size", live_bytes);
      entry("active_size", live_bytes);
      entry("requested_size", live_bytes);
      entry("stream", static_cast<std::int64_t>(segment.extents.front().stream));
      entry("segment_type", !segment.mapped ? "unmapped" : large ? "large" : "small");
      pickle_.key("segment_pool_id");
      pickle_.list([&] {
        pickle_.number(0);
        pickle_.number(0);
      });
      pickle_.key("is_expandable");
      pickle_.flag(true);
      addFrames({});
      pickle_.key("blocks");
      pickle_.longList([&, next = segment.extents.begin()]() mutable {
        addBlock(*next);
        return ++next != segment.extents.end();
      });
    });
  }

  void addBlock(const MappedExtent& extent) {
    pickle_.dict([&] {
      entry("address", addressOf(extent.begin));
      entry("size", extent.bytes);
      entry("requested_size", extent.live ? extent.bytes : 0);
      entry("state", extent.live ? "active_allocated" : "inactive");
      const auto by = made_by_.find(extent.begin);
      addFrames(extent.live && by != made_by_.end() ? by->second : WorkInHand{});
    });
  }

  void addEvents() {
    std::vector<MemoryEvent> events;
    history_.events().forEach([&](const MemoryEvent& event) { events.push_back(event); });
    pickle_.longList([&, next = events.begin()]() mutable {
      if (next == events.end()) return false;
      addEvent(*next, next->allocated ? "alloc" : "free_requested");
      if (!next->allocated) addEvent(*next, "free_completed");
      return ++next != events.end();
    });
  }

  void addEvent(const MemoryEvent& event, const char* action) {
    pickle_.dict([&] {
      entry("action", action);
      entry("addr", addressOf(event.block));
      entry("size", event.bytes);
      entry("stream", std::int64_t{0});
      entry("time_us", (event.at_ns + offset_ns_) / 1000);
      addFrames(event.by);
    });
  }

  const MemoryHistory& history_;
  Pickle pickle_;
  const std::int64_t offset_ns_ = steadyToUnixNs();
  std::unordered_map<const void*, WorkInHand> made_by_;
};

}  // namespace

void writeSnapshotFile(const allocator::MappedExtents& mapped, const MemoryHistory& history,
                       metrics::WholeFile& file) {
  Writer(history, file).write(mapped);
}

}  // namespace ebbtide::plugin
