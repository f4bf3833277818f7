#include "extent_map.hpp"

#include <algorithm>

namespace ebbtide::allocator {

ExtentMap::ExtentMap(std::uint32_t units, std::uint32_t page_units)
    : units_(units),
      page_units_(page_units),
      extents_(std::size_t{units} + 1),  // each unit could be an extent; 0 is none
      at_(units),
      free_(extents_),
      unmapped_(extents_) {
  first_ = newExtent(0, units, ExtentState::kBusy);
  settle(first_, ExtentState::kUnmapped);
}

ExtentId ExtentMap::newExtent(std::uint32_t begin, std::uint32_t units,
                              ExtentState state) noexcept {
  const ExtentId id = unused_ != 0 ? unused_ : ++records_;
  if (unused_ != 0) unused_ = extents_[id].next;
  extents_[id] = Extent{.begin = begin,
                        .units = units,
                        .before = 0,
                        .after = 0,
                        .previous = 0,
                        .next = 0,
                        .state = state,
                        .shared = false};
  return id;
}

void ExtentMap::forget(ExtentId id) noexcept {
  extents_[id].state = ExtentState::kNone;
  extents_[id].next = unused_;
  unused_ = id;
}

// The second part has the state of the first, and is in no bin.
ExtentId ExtentMap::splitAfter(ExtentId id, std::uint32_t units) noexcept {
  Extent& front = extents_[id];
  const ExtentId rest = newExtent(front.begin + units, front.units - units, front.state);
  Extent& back = extents_[rest];
  back.before = id;
  back.after = front.after;
  if (front.after != 0) extents_[front.after].before = rest;
  front.after = rest;
  front.units = units;
  return rest;
}

// Of a free or unmapped one: both parts are in its bin.
ExtentId ExtentMap::splitOff(ExtentId id, std::uint32_t units) noexcept {
  FreeBins& bins = binsOf(extents_[id].state);
  bins.remove(id);
  const ExtentId rest = splitAfter(id, units);
  bins.add(id);
  bins.add(rest);
  return rest;
}

void ExtentMap::absorbAfter(ExtentId id) noexcept {
  Extent& front = extents_[id];
  const ExtentId gone = front.after;
  front.units += extents_[gone].units;
  front.after = extents_[gone].after;
  if (front.after != 0) extents_[front.after].before = id;
  forget(gone);
}

void ExtentMap::settle(ExtentId id, ExtentState state) noexcept {
  FreeBins& bins = binsOf(state);
  const ExtentId after = extents_[id].after;
  if (after != 0 && extents_[after].state == state) {
    bins.remove(after);
    absorbAfter(id);
  }
  const ExtentId before = extents_[id].before;
  if (before != 0 && extents_[before].state == state) {
    bins.remove(before);
    absorbAfter(before);
    id = before;
  }
  extents_[id].state = state;
  bins.add(id);
}

// -----------------------------------------------------------------------------------------------
// blocks

ExtentId ExtentMap::take(std::uint32_t units) noexcept {
  const ExtentId id = free_.smallestAtLeast(units);
  if (id == 0) return 0;
  free_.remove(id);
  settleAsBlock(id, units);
  return id;
}

ExtentId ExtentMap::liveAt(std::uint32_t begin) const noexcept {
  return at_[begin];
}

bool ExtentMap::anyLive() const noexcept {
  ExtentId id = first_;
  while (id != 0 && extents_[id].state != ExtentState::kLive) id = extents_[id].after;
  return id != 0;
}

void ExtentMap::giveBack(ExtentId block) noexcept {
  at_[extents_[block].begin] = 0;
  settle(block, ExtentState::kFree);
}

void ExtentMap::settleAsBlock(ExtentId run, std::uint32_t units) noexcept {
  Extent& block = extents_[run];
  const ExtentId rest = block.units > units ? splitAfter(run, units) : 0;
  block.state = ExtentState::kLive;  // or the rest would join it
  if (rest != 0) settle(rest, ExtentState::kFree);
  block.shared = false;
  at_[block.begin] = run;
}

// -----------------------------------------------------------------------------------------------
// runs

// Ends where the block does, or with that page where its last extent is unmapped.
ExtentMap::Run ExtentMap::runToTheRight(ExtentId first, std::uint32_t units) const noexcept {
  Run run{.first = first, .begin = extents_[first].begin, .end = 0, .lacks = 0};
  for (ExtentId id = first; isLoose(id); id = extents_[id].after) {
    const Extent& extent = extents_[id];
    const std::int64_t wanted = std::int64_t{run.begin} + units;
    const bool unmapped = extent.state == ExtentState::kUnmapped;
    run.end = extent.begin + extent.units;
    const bool enough = run.end >= wanted;
    if (enough) {
      run.end = static_cast<std::uint32_t>(unmapped ? roundUp(wanted, page_units_) : wanted);
    }
    if (unmapped) run.lacks += run.end - extent.begin;
    if (enough) return run;
  }
  return {};
}

// Begins where the block does, or with that page where its first extent is unmapped.
ExtentMap::Run ExtentMap::runToTheLeft(ExtentId last, std::uint32_t units) const noexcept {
  const std::uint32_t end = extents_[last].begin + extents_[last].units;
  Run run{.first = last, .begin = 0, .end = end, .lacks = 0};
  for (ExtentId id = last; isLoose(id); id = extents_[id].before) {
    const Extent& extent = extents_[id];
    const bool unmapped = extent.state == ExtentState::kUnmapped;
    const bool enough = end - extent.begin >= units;
    run.first = id;
    run.begin = extent.begin;
    if (enough) {
      run.begin = end - units;
      if (unmapped) run.begin = run.begin / page_units_ * page_units_;
    }
    if (unmapped) run.lacks += extent.begin + extent.units - run.begin;
    if (enough) return run;
  }
  return {};
}

ExtentMap::Run ExtentMap::bestRun(std::uint32_t units) const noexcept {
  Run best;
  const auto offer = [&best](const Run& run) {
    if (run.first != 0 && run.lacks < best.lacks) best = run;
  };
  if (const ExtentId id =
          unmapped_.smallestAtLeast(static_cast<std::uint32_t>(roundUp(units, page_units_)))) {
    offer(runToTheRight(id, units));
  }
  int left = kRuns;
  free_.fromLargest([&](ExtentId id) {
    offer(runToTheRight(id, units));
    offer(runToTheLeft(id, units));
    return --left > 0;
  });
  return best.first != 0 ? best : anyRun(units);
}

// The addresses are nearly used up: of all loose neighbours the first that are enough together.
ExtentMap::Run ExtentMap::anyRun(std::uint32_t units) const noexcept {
  std::uint32_t together = 0;
  ExtentId first = 0;
  for (ExtentId id = first_; id != 0; id = extents_[id].after) {
    if (!isLoose(id)) {
      first = 0;
      continue;
    }
    if (first == 0) {
      first = id;
      together = 0;
    }
    together += extents_[id].units;
    if (together >= units) return runToTheRight(first, units);
  }
  return {};
}

ExtentId ExtentMap::takeRun(std::uint32_t units, std::uint32_t round_units, UnitRanges& missing) {
  missing.clear();
  if (units == 0 || units > units_) return 0;
  const Run run = bestRun(units);
  if (run.first == 0) return 0;
  ExtentId id = run.first;
  std::uint32_t end = run.end;
  // First what may throw, then what changes anything.
  std::size_t extents = 0;
  for (ExtentId seen = id; seen != 0 && extents_[seen].begin < end; seen = extents_[seen].after) {
    ++extents;
  }
  missing.reserve(extents);
  // What the block needs no part of stays free: it may have to be unmapped for what is missing.
  if (extents_[id].begin < run.begin) id = splitOff(id, run.begin - extents_[id].begin);
  const ExtentId taken = id;
  for (;;) {
    const Extent& extent = extents_[id];
    const bool unmapped = extent.state == ExtentState::kUnmapped;
    const std::uint32_t extent_end = extent.begin + extent.units;
    if (unmapped && extent_end > end) {
      end = std::min(extent_end, static_cast<std::uint32_t>(roundUp(end, round_units)));
    }
    if (extent_end > end) splitOff(id, end - extent.begin);
    if (unmapped) missing.push_back({extents_[id].begin, extents_[id].units});
    binsOf(extents_[id].state).remove(id);
    extents_[id].state = ExtentState::kBusy;
    if (extents_[id].begin + extents_[id].units >= end) break;
    id = extents_[id].after;
  }
  while (extents_[taken].begin + extents_[taken].units < end) absorbAfter(taken);
  return taken;
}

void ExtentMap::settleAsBefore(ExtentId run, const UnitRanges& missing) noexcept {
  ExtentId id = run;
  for (const UnitRange& range : missing) {
    if (extents_[id].begin < range.begin) {
      const ExtentId rest = splitAfter(id, range.begin - extents_[id].begin);
      settle(id, ExtentState::kFree);
      id = rest;
    }
    const std::uint32_t end = range.begin + range.units;
    const bool more = extents_[id].begin + extents_[id].units > end;
    const ExtentId rest = more ? splitAfter(id, range.units) : 0;
    settle(id, ExtentState::kUnmapped);
    id = rest;
  }
  if (id != 0) settle(id, ExtentState::kFree);
}

// -----------------------------------------------------------------------------------------------
// pages

UnitRange ExtentMap::wholePagesOf(ExtentId id) const noexcept {
  const Extent& extent = extents_[id];
  const auto begin = static_cast<std::uint32_t>(roundUp(extent.begin, page_units_));
  const std::uint32_t end = (extent.begin + extent.units) / page_units_ * page_units_;
  return {begin, end > begin ? end - begin : 0};
}

std::int64_t ExtentMap::freePageUnits() const noexcept {
  if (page_units_ == 1) return free_.units();
  std::int64_t units = 0;
  free_.fromLargest([&](ExtentId id) {
    units += wholePagesOf(id).units;
    return extents_[id].units >= page_units_;  // a power of two: smaller ones are in other bins
  });
  return units;
}

ExtentId ExtentMap::takePages(std::uint32_t units) noexcept {
  const auto wanted =
      static_cast<std::uint32_t>(roundUp(std::clamp(units, 1U, units_), page_units_));
  // So long an extent has that many wherever it begins.
  ExtentId id = free_.smallestAtLeast(wanted + page_units_ - 1);
  if (id == 0) {
    // All that may hold a page: more than one is looked at only where a page is many units.
    free_.fromLargest([&](ExtentId candidate) {
      if (wholePagesOf(candidate).units > 0) id = candidate;
      return id == 0 && (page_units_ == 1 || extents_[candidate].units >= page_units_);
    });
  }
  if (id == 0) return 0;
  UnitRange pages = wholePagesOf(id);
  pages.units = std::min(pages.units, wanted);
  free_.remove(id);
  if (extents_[id].begin < pages.begin) {
    const ExtentId rest = splitAfter(id, pages.begin - extents_[id].begin);
    free_.add(id);
    id = rest;
  }
  if (extents_[id].units > pages.units) free_.add(splitAfter(id, pages.units));
  extents_[id].state = ExtentState::kBusy;
  return id;
}

void ExtentMap::settleAsUnmapped(ExtentId pages) noexcept {
  settle(pages, ExtentState::kUnmapped);
}

void ExtentMap::settleAsFree(ExtentId pages) noexcept {
  settle(pages, ExtentState::kFree);
}

}  // namespace ebbtide::allocator
