// PlacedLane: what maps and unmaps pages.
#include <algorithm>
#include <new>
#include <utility>

#include "placed_lane.hpp"
#include "size_class.hpp"

namespace ebbtide::allocator {
namespace {

// Pages are mapped in such steps where room for many is left, so that the system can give huge
// ones.
constexpr std::uint32_t kGrowthUnits = 512;
constexpr Bytes kRoomForGrowth = Bytes{16} * kGrowthUnits * kUnitBytes;

// Blocks that are looked ahead for, so that their places keep their pages: so many, then ever more
// while the rest is enough.
constexpr std::size_t kFewestAhead = 4, kMostAhead = 1024;

}  // namespace

// Is nothing in its way but holes?
bool PlacedLane::lacksOnlyPages(const Held&, const UnitRange& wanted) const noexcept {
  if (wanted.end() > top_ || hole_units_ == 0) return false;
  const auto end = static_cast<std::uint32_t>(wanted.end());
  for (std::uint32_t unit = wanted.begin; unit < end;) {
    bool is_taken = false, is_hole = false;
    const std::uint32_t length = taken_.runLength(unit, end, is_taken);
    if (is_taken && (holes_.runLength(unit, unit + length, is_hole) < length || !is_hole)) {
      return false;
    }
    unit += length;
  }
  return true;
}

// The pages that it lies on, and on both sides what makes up a step.
UnitRange PlacedLane::pagesFor(EitherHeld, const UnitRange& wanted,
                               std::uint32_t step_units) const noexcept {
  const std::uint32_t first = wanted.begin / step_units * step_units;
  const Bytes end = std::min<Bytes>(roundUp(wanted.end(), step_units), top_);
  return {first, static_cast<std::uint32_t>(end - first)};
}

template <typename Visit>
void PlacedLane::forEachHole(EitherHeld, const UnitRange& within, Visit&& visit) const {
  const auto end = static_cast<std::uint32_t>(within.end());
  for (std::uint32_t unit = within.begin; unit < end;) {
    bool is_hole = false;
    const std::uint32_t length = holes_.runLength(unit, end, is_hole);
    if (is_hole && !visit(UnitRange{unit, length})) return;
    unit += length;
  }
}

Bytes PlacedLane::holeBytes(EitherHeld held, const UnitRange& pages) const noexcept {
  Bytes units = 0;
  forEachHole(held, pages, [&](const UnitRange& hole) {
    units += hole.units;
    return true;
  });
  return units * kUnitBytes;
}

// Maps the holes of a place, then takes it. Pages of others make way first, then free pages of this
// arena.
PlacedLane::Outcome PlacedLane::mapAndTake(const UnitRange& wanted) noexcept {
  Bytes missing_bytes = 0;
  {
    const Held held(lock_);
    missing_bytes = holeBytes(held, pagesFor(held, wanted, page_units_));
  }
  upstream_.makeRoomForOther(missing_bytes);  // takes locks of its own
  const Bytes lacking_bytes = missing_bytes - tracker_.roomBytes();
  if (lacking_bytes > 0) unmap_elsewhere_(lacking_bytes);
  const Paging paging(paging_);
  {
    const Held held(lock_);
    if (!lacksOnlyPages(held, wanted))
      return take(held, wanted) ? Outcome::kPlaced : Outcome::kTaken;
    takeFreeIn(held, wanted);
  }
  const bool mapped = mapHoles(paging, wanted);
  const Held held(lock_);
  if (mapped) {
    noteBlock(held, wanted);
    return Outcome::kPlaced;
  }
  giveFreeIn(held, wanted);
  return Outcome::kShort;
}

// All of it is free, or a hole; afterwards all of it is taken.
void PlacedLane::takeFreeIn(const Held&, const UnitRange& wanted) noexcept {
  const auto end = static_cast<std::uint32_t>(wanted.end());
  for (std::uint32_t unit = wanted.begin; unit < end;) {
    bool is_taken = false;
    const std::uint32_t length = taken_.runLength(unit, end, is_taken);
    if (!is_taken) taken_.tryTake(unit, length);
    unit += length;
  }
}

// The way back: only holes are taken afterwards.
void PlacedLane::giveFreeIn(const Held& held, const UnitRange& wanted) noexcept {
  std::uint32_t free_from = wanted.begin;
  forEachHole(held, wanted, [&](const UnitRange& hole) {
    taken_.clear(free_from, hole.begin - free_from);
    free_from = static_cast<std::uint32_t>(hole.end());
    return true;
  });
  taken_.clear(free_from, static_cast<std::uint32_t>(wanted.end()) - free_from);
}

bool PlacedLane::mapHoles(const Paging& paging, const UnitRange& wanted) noexcept {
  const std::uint32_t step_units = std::max(kGrowthUnits, page_units_);
  const bool generous = tracker_.roomBytes() >= kRoomForGrowth;
  if (generous && mapHolesIn(paging, pagesFor(paging, wanted, step_units), wanted)) return true;
  const UnitRange pages = pagesFor(paging, wanted, page_units_);
  const Bytes lacking_bytes = holeBytes(paging, pages) - tracker_.roomBytes();
  if (lacking_bytes > 0) unmapSome(paging, lacking_bytes);
  return mapHolesIn(paging, pages, wanted);
}

// False if a hole is left: what was mapped stays so.
bool PlacedLane::mapHolesIn(const Paging& paging, const UnitRange& pages,
                            const UnitRange& wanted) noexcept {
  const Bytes bytes = holeBytes(paging, pages);
  // What is let over the budget is for the pool, which maps for what lives alone.
  if (BudgetTracker::allowsOverrunHere() && bytes > tracker_.roomBytes()) return false;
  if (!tracker_.debit(bytes)) return false;
  Bytes mapped_bytes = 0;
  forEachHole(paging, pages, [&](const UnitRange& hole) {
    const Bytes hole_bytes = Bytes{hole.units} * kUnitBytes;
    if (!space_.map(addressOf(hole.begin), hole_bytes)) return false;
    mapped_bytes += hole_bytes;
    const Held held(lock_);
    fill(held, hole, wanted);
    return true;
  });
  if (mapped_bytes < bytes) tracker_.credit(bytes - mapped_bytes);
  return mapped_bytes == bytes;
}

// It is mapped: free, but for what lies in the place that it was mapped for.
void PlacedLane::fill(const Held&, const UnitRange& hole, const UnitRange& wanted) noexcept {
  holes_.clear(hole.begin, hole.units);
  hole_units_ -= hole.units;
  const auto clear = [this](std::int64_t from, std::int64_t to) {
    if (from < to) {
      taken_.clear(static_cast<std::uint32_t>(from), static_cast<std::uint32_t>(to - from));
    }
  };
  clear(hole.begin, std::min<std::int64_t>(hole.end(), wanted.begin));
  clear(std::max<std::int64_t>(hole.begin, wanted.end()), hole.end());
}

// What no block lies on, whole pages; the lock is held for one at a time only.
template <typename Visit>
void PlacedLane::forEachFreeRun(Visit&& visit) const {
  for (std::uint32_t unit = 0;;) {
    bool is_taken = false;
    std::uint32_t length = 0;
    {
      const Held held(lock_);
      if (unit >= top_) return;
      length = taken_.runLength(unit, top_, is_taken);
    }
    const auto first = static_cast<std::uint32_t>(roundUp(unit, page_units_));
    const std::uint32_t last = (unit + length) / page_units_ * page_units_;
    if (!is_taken && first < last) visit(UnitRange{first, last - first});
    unit += length;
  }
}

// The pages of the next places, disjoint and in the order of addresses.
UnitRanges PlacedLane::nextPlaces(std::size_t count) const {
  UnitRanges places;
  places.reserve(count);
  {
    const Held held(lock_);
    if (sequence_ == nullptr) return places;
    const std::vector<PlacedBlock>& blocks = sequence_->blocks;
    for (std::size_t i = 0; i < std::min(count, blocks.size()); ++i) {
      const PlacedBlock& block = blocks[(cursor_ + i) % blocks.size()];
      if (std::int64_t{block.offset_units} + block.units > top_) continue;  // it goes upstream
      places.push_back(pagesFor(held, {block.offset_units, block.units}, page_units_));
    }
  }
  return joined(std::move(places));
}

// So many bytes, if there are, that the step needs last; the longest first.
UnitRanges PlacedLane::freeRuns(const Paging&, Bytes need_bytes) const {
  UnitRanges runs;
  forEachFreeRun([&](const UnitRange& run) { runs.push_back(run); });
  for (std::size_t count = kFewestAhead; count <= kMostAhead; count *= 4) {
    UnitRanges later = without(runs, nextPlaces(count));
    Bytes units = 0;
    for (const UnitRange& run : later) units += run.units;
    if (units * kUnitBytes < need_bytes) break;
    runs = std::move(later);
  }
  std::sort(runs.begin(), runs.end(),
            [](const UnitRange& left, const UnitRange& right) { return left.units > right.units; });
  return runs;
}

Bytes PlacedLane::unmapFree(Bytes need_bytes) noexcept {
  if (freeBytes() == 0) return 0;
  const Paging paging(paging_);
  return unmapSome(paging, need_bytes);
}

Bytes PlacedLane::unmapSome(const Paging& paging, Bytes need_bytes) noexcept {
  UnitRanges runs;
  try {
    runs = freeRuns(paging, need_bytes);
  } catch (const std::bad_alloc&) {
    return 0;
  }
  // Out of reach before the device is waited for, so no work can come to use them afterwards.
  Bytes unmapped = 0;
  std::size_t count = 0;
  for (UnitRange run : runs) {
    if (unmapped >= need_bytes) break;
    const Bytes wanted = roundUp((need_bytes - unmapped - 1) / kUnitBytes + 1, page_units_);
    run.units = static_cast<std::uint32_t>(std::min<Bytes>(run.units, wanted));
    const Held held(lock_);
    if (!taken_.tryTake(run.begin, run.units)) continue;  // a block came meanwhile
    hole_units_ += run.units;
    unmapped += Bytes{run.units} * kUnitBytes;
    runs[count++] = run;
  }
  runs.resize(count);
  if (runs.empty()) return 0;
  const bool idle = upstream_.waitForDevice();
  for (const UnitRange& run : runs) {
    if (idle) space_.unmap(addressOf(run.begin), Bytes{run.units} * kUnitBytes);
    const Held held(lock_);
    if (idle) {
      holes_.tryTake(run.begin, run.units);
    } else {
      hole_units_ -= run.units;
      taken_.clear(run.begin, run.units);
    }
  }
  if (!idle) return 0;
  tracker_.credit(unmapped);
  return unmapped;
}

Bytes PlacedLane::freeBytes() const noexcept {
  if (page_units_ == 1) {
    const Held held(lock_);
    return (top_ - hole_units_ - live_units_) * kUnitBytes;
  }
  Bytes units = 0;
  forEachFreeRun([&](const UnitRange& run) { units += run.units; });
  return units * kUnitBytes;
}

}  // namespace ebbtide::allocator
