#include "arena_units.hpp"

#include <algorithm>

#include "size_class.hpp"

namespace ebbtide::allocator {

ArenaUnits::ArenaUnits(BudgetTracker& tracker, std::uint32_t units)
    : taken_(units), size_at_(units), live_(tracker), holes_(units) {}

void ArenaUnits::raiseTop(std::uint32_t top) noexcept {
  if (top <= top_) return;
  taken_.tryTake(top_, top - top_);
  holes_.tryTake(top_, top - top_);
  hole_units_ += top - top_;
  top_ = top;
}

void ArenaUnits::markShared(std::uint32_t begin) noexcept {
  std::uint32_t& size = size_at_[begin];
  if (size != 0) size |= kShared;
}

ArenaUnits::Run ArenaUnits::runFrom(std::uint32_t unit) const noexcept {
  if (unit >= top_) return {0, false};
  bool is_taken = false;
  const std::uint32_t units = taken_.runLength(unit, top_, is_taken);
  return {units, !is_taken};
}

UnitRange ArenaUnits::nextHole(std::uint32_t from, std::uint32_t end) const noexcept {
  for (std::uint32_t unit = from; unit < end;) {
    bool is_hole = false;
    const std::uint32_t units = holes_.runLength(unit, end, is_hole);
    if (is_hole) return {unit, units};
    unit += units;
  }
  return {end, 0};
}

std::int64_t ArenaUnits::holeUnits(const UnitRange& within) const noexcept {
  const auto end = static_cast<std::uint32_t>(within.end());
  std::int64_t units = 0;
  for (UnitRange hole = nextHole(within.begin, end); hole.units > 0;
       hole = nextHole(hole.begin + hole.units, end)) {
    units += hole.units;
  }
  return units;
}

UnitRange ArenaUnits::around(const UnitRange& wanted, std::uint32_t step_units) const noexcept {
  const std::uint32_t first = wanted.begin / step_units * step_units;
  const Bytes end = std::min<Bytes>(roundUp(wanted.end(), step_units), top_);
  return {first, static_cast<std::uint32_t>(end - first)};
}

bool ArenaUnits::lacksOnlyPages(const UnitRange& wanted) const noexcept {
  if (!isBelowTop(wanted) || hole_units_ == 0) return false;
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

void ArenaUnits::claim(const UnitRange& wanted) noexcept {
  const auto end = static_cast<std::uint32_t>(wanted.end());
  for (std::uint32_t unit = wanted.begin; unit < end;) {
    bool is_taken = false;
    const std::uint32_t length = taken_.runLength(unit, end, is_taken);
    if (!is_taken) taken_.tryTake(unit, length);
    unit += length;
  }
}

void ArenaUnits::settleAsBefore(const UnitRange& claimed) noexcept {
  const auto end = static_cast<std::uint32_t>(claimed.end());
  for (std::uint32_t free_from = claimed.begin; free_from < end;) {
    const UnitRange hole = nextHole(free_from, end);
    taken_.clear(free_from, hole.begin - free_from);
    free_from = hole.begin + hole.units;
  }
}

void ArenaUnits::fill(const UnitRange& hole, const UnitRange& claimed) noexcept {
  holes_.clear(hole.begin, hole.units);
  hole_units_ -= hole.units;
  const auto clear = [this](std::int64_t from, std::int64_t to) {
    if (from >= to) return;
    taken_.clear(static_cast<std::uint32_t>(from), static_cast<std::uint32_t>(to - from));
  };
  clear(hole.begin, std::min<std::int64_t>(hole.end(), claimed.begin));
  clear(std::max<std::int64_t>(hole.begin, claimed.end()), hole.end());
}

bool ArenaUnits::claimFree(const UnitRange& pages) noexcept {
  if (!taken_.tryTake(pages.begin, pages.units)) return false;
  hole_units_ += pages.units;
  return true;
}

void ArenaUnits::settleAsHole(const UnitRange& pages) noexcept {
  holes_.tryTake(pages.begin, pages.units);
}

void ArenaUnits::settleAsFree(const UnitRange& pages) noexcept {
  hole_units_ -= pages.units;
  taken_.clear(pages.begin, pages.units);
}

}  // namespace ebbtide::allocator
