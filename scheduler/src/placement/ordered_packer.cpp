#include "placement/ordered_packer.hpp"

#include <algorithm>
#include <iterator>

#include "placement/live_index.hpp"

namespace ebbtide::scheduler {
namespace {

Bytes offsetFor(const LiveSpan& span, Fit fit, LiveIndex& placed) {
  placed.startGaps(span.first, span.end);
  Extent best{0, kEndless};
  while (true) {
    const Extent gap = placed.nextGap(span.bytes);
    const bool better = best.top == kEndless || gap.top - gap.offset < best.top - best.offset;
    if (gap.top == kEndless) return best.top == kEndless ? gap.offset : best.offset;
    if (better) best = gap;
    if (fit == Fit::kFirst || gap.top - gap.offset == span.bytes) return gap.offset;
  }
}

}  // namespace

Packing packInOrder(const LiveSections& sections, const std::vector<std::int32_t>& order, Fit fit,
                    Bytes below_bytes, const SearchEnd& end) {
  Packing packing;
  packing.offsets.assign(sections.spans.size(), 0);
  LiveIndex placed(sections.count());
  std::vector<bool> goes_first(sections.spans.size(), false);
  std::vector<std::int32_t> whole = sections.first;
  for (const std::int32_t span : whole) goes_first[span] = true;
  std::copy_if(order.begin(), order.end(), std::back_inserter(whole),
               [&](std::int32_t span) { return !goes_first[span]; });
  for (const std::int32_t span : whole) {
    const LiveSpan& live = sections.spans[span];
    const Bytes offset = offsetFor(live, goes_first[span] ? Fit::kFirst : fit, placed);
    packing.height_bytes = std::max(packing.height_bytes, offset + live.bytes);
    if (packing.height_bytes >= below_bytes) return {{}, 0, span};
    if (end.reached()) return {};
    packing.offsets[span] = offset;
    placed.add(live.first, live.end, {offset, offset + live.bytes});
  }
  return packing;
}

}  // namespace ebbtide::scheduler
