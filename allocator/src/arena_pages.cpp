#include "arena_pages.hpp"

#include <algorithm>
#include <new>
#include <utility>

#include "size_class.hpp"

namespace ebbtide::allocator {
namespace {

// While the budget has room for 16 such steps, pages are mapped in whole steps: the system can
// then use huge pages.
constexpr std::uint32_t kGrowthUnits = 512;
constexpr Bytes kRoomForGrowth = Bytes{16} * kGrowthUnits * kUnitBytes;

// How many of the next blocks keep their pages: the fewest first, then four times as many for as
// long as the other pages suffice.
constexpr std::size_t kFewestAhead = 4, kMostAhead = 1024;

}  // namespace

ArenaPages::ArenaPages(AddressSpace& space, BudgetTracker& tracker, PoolResource& upstream,
                       const Reservation& addresses, LockedLane& lane,
                       UnmapElsewhere unmap_elsewhere)
    : space_(space),
      tracker_(tracker),
      upstream_(upstream),
      addresses_(addresses),
      lane_(lane),
      unmap_elsewhere_(std::move(unmap_elsewhere)),
      page_units_(static_cast<std::uint32_t>(space.pageBytes() / kUnitBytes)) {}

void ArenaPages::raiseTop(std::uint32_t height_units) noexcept {
  const auto top = static_cast<std::uint32_t>(
      std::min<std::int64_t>(roundUp(height_units, page_units_), addresses_.units()));
  if (top <= lane_.hold()->units.top()) return;
  const Paging paging(paging_);
  lane_.hold()->units.raiseTop(top);
}

// What is taken is a block or a hole: paging_ is held, so nothing is on its way.
void ArenaPages::describe(Stream stream, MappedExtents& out) const {
  const Paging paging(paging_);
  const LockedLane::Held lane = lane_.hold();
  lane->units.forEachMapped([&](const UnitRange& range, bool is_block) {
    const Bytes bytes = Bytes{range.units} * kUnitBytes;
    out.push_back({addresses_.addressOf(range.begin), bytes, is_block, stream});
  });
}

// -----------------------------------------------------------------------------------------------
// mapping

Bytes ArenaPages::holeBytes(const UnitRange& within) const noexcept {
  return lane_.hold()->units.holeUnits(within) * kUnitBytes;
}

// The pages that it lies on, and on both sides what makes up a step.
UnitRange ArenaPages::pagesAround(const UnitRange& wanted,
                                  std::uint32_t step_units) const noexcept {
  return lane_.hold()->units.around(wanted, step_units);
}

// Maps the holes of a place, then takes it. Pages of others make way first, then free pages of this
// arena.
PlacementOutcome ArenaPages::mapAndTake(const UnitRange& wanted) noexcept {
  const Bytes missing_bytes = holeBytes(pagesAround(wanted, page_units_));
  upstream_.makeRoomForOther(missing_bytes);  // takes locks of its own
  const Bytes lacking_bytes = missing_bytes - tracker_.roomBytes();
  if (lacking_bytes > 0) unmap_elsewhere_(lacking_bytes);
  const Paging paging(paging_);
  {
    const LockedLane::Held lane = lane_.hold();
    if (!lane->units.lacksOnlyPages(wanted)) {
      return lane->units.take(wanted) ? PlacementOutcome::kPlaced : PlacementOutcome::kTaken;
    }
    lane->units.claim(wanted);
  }
  const bool mapped = mapHoles(paging, wanted);
  const LockedLane::Held lane = lane_.hold();
  if (mapped) {
    lane->units.settleAsBlock(wanted);
    return PlacementOutcome::kPlaced;
  }
  lane->units.settleAsBefore(wanted);
  return PlacementOutcome::kShort;
}

bool ArenaPages::mapHoles(const Paging& paging, const UnitRange& wanted) noexcept {
  const std::uint32_t step_units = std::max(kGrowthUnits, page_units_);
  const bool generous = tracker_.roomBytes() >= kRoomForGrowth;
  if (generous && mapHolesIn(paging, pagesAround(wanted, step_units), wanted)) return true;
  const UnitRange pages = pagesAround(wanted, page_units_);
  const Bytes lacking_bytes = holeBytes(pages) - tracker_.roomBytes();
  if (lacking_bytes > 0) unmapSome(paging, lacking_bytes);
  return mapHolesIn(paging, pages, wanted);
}

// False if a hole is left: what was mapped stays so.
bool ArenaPages::mapHolesIn(const Paging&, const UnitRange& pages,
                            const UnitRange& wanted) noexcept {
  const Bytes bytes = holeBytes(pages);
  // What is let over the budget is for the pool, which maps for what lives alone.
  if (BudgetTracker::allowsOverrunHere() && bytes > tracker_.roomBytes()) return false;
  if (!tracker_.debit(bytes)) return false;
  Bytes mapped_bytes = 0;
  const auto end = static_cast<std::uint32_t>(pages.end());
  for (std::uint32_t from = pages.begin; mapped_bytes < bytes;) {
    const UnitRange hole = lane_.hold()->units.nextHole(from, end);
    const Bytes hole_bytes = Bytes{hole.units} * kUnitBytes;
    if (!space_.map(addresses_.addressOf(hole.begin), hole_bytes)) break;
    mapped_bytes += hole_bytes;
    lane_.hold()->units.fill(hole, wanted);
    from = hole.begin + hole.units;
  }
  if (mapped_bytes < bytes) tracker_.credit(bytes - mapped_bytes);
  return mapped_bytes == bytes;
}

// -----------------------------------------------------------------------------------------------
// unmapping

// Visits the free runs, in whole pages. It holds the lane's lock for one run at a time.
template <typename Visit>
void ArenaPages::forEachFreeRun(Visit&& visit) const {
  for (std::uint32_t unit = 0;;) {
    const ArenaUnits::Run run = lane_.hold()->units.runFrom(unit);
    if (run.units == 0) return;
    const auto first = static_cast<std::uint32_t>(roundUp(unit, page_units_));
    const std::uint32_t last = (unit + run.units) / page_units_ * page_units_;
    if (run.is_free && first < last) visit(UnitRange{first, last - first});
    unit += run.units;
  }
}

// The pages of the next places, disjoint and in the order of addresses.
UnitRanges ArenaPages::nextPlaces(std::size_t count) const {
  UnitRanges places;
  places.reserve(count);
  {
    const LockedLane::Held lane = lane_.hold();
    lane->step.forEachNext(count, [&](const PlacedBlock& block) {
      const UnitRange place{block.offset_units, block.units};
      if (!lane->units.isBelowTop(place)) return;  // it goes upstream
      places.push_back(lane->units.around(place, page_units_));
    });
  }
  return joined(std::move(places));
}

// The free runs that the step needs last, `need_bytes` at least if there is so much; longest first.
UnitRanges ArenaPages::runsToUnmap(const Paging&, Bytes need_bytes) const {
  UnitRanges runs;
  forEachFreeRun([&](const UnitRange& run) { runs.push_back(run); });
  for (std::size_t count = kFewestAhead; count <= kMostAhead; count *= 4) {
    UnitRanges later = without(runs, nextPlaces(count));
    std::int64_t units = 0;
    for (const UnitRange& run : later) units += run.units;
    if (units * kUnitBytes < need_bytes) break;
    runs = std::move(later);
  }
  std::sort(runs.begin(), runs.end(),
            [](const UnitRange& left, const UnitRange& right) { return left.units > right.units; });
  return runs;
}

// Claims `need_bytes` in whole pages, or all there is. `runs` keeps those that it claimed.
Bytes ArenaPages::claimFree(const Paging&, UnitRanges& runs, Bytes need_bytes) noexcept {
  Bytes claimed_bytes = 0;
  std::size_t count = 0;
  for (UnitRange run : runs) {
    if (claimed_bytes >= need_bytes) break;
    const std::int64_t wanted =
        roundUp((need_bytes - claimed_bytes - 1) / kUnitBytes + 1, page_units_);
    run.units = static_cast<std::uint32_t>(std::min<std::int64_t>(run.units, wanted));
    if (!lane_.hold()->units.claimFree(run)) continue;  // a block came meanwhile
    claimed_bytes += Bytes{run.units} * kUnitBytes;
    runs[count++] = run;
  }
  runs.resize(count);
  return claimed_bytes;
}

Bytes ArenaPages::unmapFree(Bytes need_bytes) noexcept {
  const Paging paging(paging_);  // after it, pages that another thread moved are mapped or free
  if (freeBytes() == 0) return 0;
  return unmapSome(paging, need_bytes);
}

Bytes ArenaPages::unmapSome(const Paging& paging, Bytes need_bytes) noexcept {
  UnitRanges runs;
  try {
    runs = runsToUnmap(paging, need_bytes);
  } catch (const std::bad_alloc&) {
    return 0;
  }
  // Out of reach before the device is waited for, so no work can come to use them afterwards.
  const Bytes claimed_bytes = claimFree(paging, runs, need_bytes);
  if (claimed_bytes == 0) return 0;
  const bool idle = upstream_.waitForDevice();
  for (const UnitRange& run : runs) {
    if (idle) {
      space_.unmap(addresses_.addressOf(run.begin), Bytes{run.units} * kUnitBytes);
      lane_.hold()->units.settleAsHole(run);
    } else {
      lane_.hold()->units.settleAsFree(run);
    }
  }
  if (!idle) return 0;
  tracker_.credit(claimed_bytes);
  return claimed_bytes;
}

Bytes ArenaPages::freeBytes() const noexcept {
  if (page_units_ == 1) return lane_.hold()->units.freeUnits() * kUnitBytes;
  std::int64_t units = 0;
  forEachFreeRun([&](const UnitRange& run) { units += run.units; });
  return units * kUnitBytes;
}

}  // namespace ebbtide::allocator
