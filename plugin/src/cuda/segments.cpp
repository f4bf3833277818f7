#include "cuda/segments.hpp"

#include <algorithm>

#include "ebbtide/allocator/cuda/stream_names.hpp"

namespace ebbtide::plugin::cuda {
namespace {

using c10::CachingDeviceAllocator::BlockInfo;
using c10::CachingDeviceAllocator::SegmentInfo;

// visitRun(begin, end, owner), then visitBlock(at, block) for each of its blocks. A block may reach
// into the run after its own, if that is another owner's; they are shown as one.
template <typename VisitRun, typename VisitBlock>
void walk(const BlockTable& table, VisitRun&& visitRun, VisitBlock&& visitBlock) {
  auto block = table.blocks().begin();
  const auto blocks_end = table.blocks().end();
  for (auto run = table.runs().begin(); run != table.runs().end();) {
    const std::byte* const begin = run->first;
    const std::byte* end = run->second.end;
    const Owner& owner = run->second.owner;
    ++run;
    while (block != blocks_end && block->first < begin) ++block;
    const auto first = block;
    for (; block != blocks_end && block->first < end; ++block) {
      const std::byte* const block_end = block->first + block->second.bytes;
      while (block_end > end && run != table.runs().end() && run->first == end) {
        end = run->second.end;
        ++run;
      }
    }
    visitRun(begin, end, owner);
    for (auto at = first; at != block; ++at) visitBlock(at->first, at->second);
  }
}

BlockInfo idle(const std::byte* begin, const std::byte* end) {
  BlockInfo info;
  info.size = static_cast<std::size_t>(end - begin);
  return info;
}

BlockInfo used(const Block& block) {
  BlockInfo info;
  info.size = static_cast<std::size_t>(block.bytes);
  info.requested_size = static_cast<std::size_t>(block.requested_bytes);
  info.allocated = !block.awaiting;
  info.active = true;
  info.context_when_allocated = block.context;
  return info;
}

void closeSegment(SegmentInfo& segment, const std::byte* at) {
  const auto* end = reinterpret_cast<const std::byte*>(segment.address) + segment.total_size;
  if (at < end) segment.blocks.push_back(idle(at, end));
}

}  // namespace

std::vector<SegmentInfo> segmentsOf(const BlockTable& table, c10::DeviceIndex device,
                                    c10::MempoolId_t pool) {
  std::vector<SegmentInfo> segments;
  const std::byte* at = nullptr;  // up to where the last segment is described
  walk(
      table,
      [&](const std::byte* begin, const std::byte* end, const Owner& owner) {
        if (!segments.empty()) closeSegment(segments.back(), at);
        SegmentInfo& segment = segments.emplace_back();
        segment.device = device;
        segment.address = reinterpret_cast<std::size_t>(begin);
        segment.total_size = static_cast<std::size_t>(end - begin);
        segment.stream = allocator::cuda::handleOf(owner.name);
        segment.is_large = !owner.small;
        segment.is_expandable = true;
        segment.owner_private_pool_id = owner.pool;
        at = begin;
      },
      [&](const std::byte* begin, const Block& block) {
        SegmentInfo& segment = segments.back();
        if (at < begin) segment.blocks.push_back(idle(at, begin));
        segment.blocks.push_back(used(block));
        segment.active_size += static_cast<std::size_t>(block.bytes);
        segment.requested_size += static_cast<std::size_t>(block.requested_bytes);
        if (!block.awaiting) segment.allocated_size += static_cast<std::size_t>(block.bytes);
        at = begin + block.bytes;
      });
  if (!segments.empty()) closeSegment(segments.back(), at);
  if (pool != c10::MempoolId_t{0, 0}) {
    std::erase_if(segments, [&pool](const SegmentInfo& segment) {
      return segment.owner_private_pool_id != pool;
    });
  }
  return segments;
}

IdleMemory idleMemoryOf(const BlockTable& table) noexcept {
  IdleMemory idle;
  const std::byte *begin = nullptr, *end = nullptr, *at = nullptr;
  bool small = false;
  DeviceStatistics::Idle run;
  const auto stretch = [&](const std::byte* until) {
    const Bytes bytes = until - at;
    if (bytes <= 0) return;
    ++run.stretches;
    run.bytes += bytes;
    idle.bytes += bytes;
    idle.largest_bytes = std::max(idle.largest_bytes, bytes);
  };
  const auto closeRun = [&] {
    if (begin == nullptr) return;
    const bool split = at != begin;
    stretch(end);
    if (!split) return;
    DeviceStatistics::Idle& total = small ? idle.small_split : idle.large_split;
    total.stretches += run.stretches;
    total.bytes += run.bytes;
  };
  walk(
      table,
      [&](const std::byte* run_begin, const std::byte* run_end, const Owner& owner) {
        closeRun();
        begin = at = run_begin;
        end = run_end;
        small = owner.small;
        run = {};
      },
      [&](const std::byte* block_begin, const Block& block) {
        stretch(block_begin);
        at = block_begin + block.bytes;
      });
  closeRun();
  return idle;
}

}  // namespace ebbtide::plugin::cuda
