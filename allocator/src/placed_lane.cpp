#include "placed_lane.hpp"

#include <algorithm>
#include <new>
#include <utility>

#include "size_class.hpp"
#include "this_thread.hpp"

namespace ebbtide::allocator {
namespace {

constexpr std::size_t kLookAhead = 16;  // blocks: how many a step may leave out in a row

// The top rises in such steps where room for many is left, so that the system can give huge pages.
constexpr std::int64_t kGrowthUnits = 512;
constexpr Bytes kRoomForGrowth = 16 * kGrowthUnits * kUnitBytes;

std::uint32_t unitsOf(const Reservation& reservation) noexcept {
  return static_cast<std::uint32_t>(reservation.bytes() / kUnitBytes);
}

}  // namespace

PlacedLane::PlacedLane(AddressSpace& space, Ledger& ledger, PoolResource& upstream, Stream stream,
                       Bytes reserve_bytes)
    : space_(space),
      ledger_(ledger),
      upstream_(upstream),
      stream_(stream),
      page_units_(static_cast<std::uint32_t>(space.pageBytes() / kUnitBytes)),
      reservation_(space, reserve_bytes),
      taken_(unitsOf(reservation_)),
      size_at_(unitsOf(reservation_)),
      live_(ledger) {}

PlacedLane::~PlacedLane() {
  if (live_units_ > 0) reservation_.keep();
}

// -----------------------------------------------------------------------------------------------
// the step

void PlacedLane::begin(std::shared_ptr<const PlacedSequence> sequence,
                       bool this_thread_only) noexcept {
  // The old one goes with the parameter, after the lock.
  if (sequence != nullptr && sequence->height_units > unitsOf(reservation_)) sequence = nullptr;
  const std::lock_guard guard(lock_);
  if (sequence != nullptr) {
    const auto height = static_cast<std::uint32_t>(roundUp(sequence->height_units, page_units_));
    height_ = std::max(height, height_.load());
  }
  only_thread_ = this_thread_only ? thisThread() : nullptr;
  cursor_ = 0;
  short_of_pages_ = false;
  first_deviation_.reset();
  sequence_.swap(sequence);
}

void PlacedLane::beginPhase(std::size_t phase) noexcept {
  const std::lock_guard guard(lock_);
  if (sequence_ == nullptr || (only_thread_ != nullptr && only_thread_ != thisThread())) return;
  const std::vector<std::uint32_t>& begins = sequence_->phase_begins;
  if (phase < begins.size()) cursor_ = begins[phase];
}

// The expected block of this size, which the cursor then passes; nullptr if none is near.
const PlacedBlock* PlacedLane::advance(std::uint32_t units) noexcept {
  const std::vector<PlacedBlock>& blocks = sequence_->blocks;
  const std::size_t end = std::min(blocks.size(), cursor_ + kLookAhead);
  for (std::size_t i = cursor_; i < end; ++i) {
    if (blocks[i].units != units) continue;
    if (i != cursor_) noteDeviation(units);
    cursor_ = i + 1;
    return &blocks[i];
  }
  noteDeviation(units);
  return nullptr;
}

void PlacedLane::noteDeviation(std::uint32_t units) noexcept {
  ++counters_.deviations;
  if (first_deviation_) return;
  const std::vector<PlacedBlock>& blocks = sequence_->blocks;
  const Bytes expected = cursor_ < blocks.size() ? blocks[cursor_].units * kUnitBytes : 0;
  first_deviation_ = {static_cast<std::int64_t>(cursor_), expected, units * kUnitBytes};
}

// -----------------------------------------------------------------------------------------------
// blocks

// The lock is held.
inline bool PlacedLane::take(const Stretch& wanted) noexcept {
  if (wanted.end() > top_ || !taken_.tryTake(wanted.begin, wanted.units)) return false;
  size_at_[wanted.begin] = wanted.units;
  live_units_ += wanted.units;
  live_.noteAllocated(Bytes{wanted.units} * kUnitBytes);
  return true;
}

void* PlacedLane::place(std::size_t request_bytes) noexcept {
  if (request_bytes > static_cast<std::size_t>(reservation_.bytes())) return nullptr;
  Stretch wanted{0, unitsFor(request_bytes)};
  {
    const std::lock_guard guard(lock_);
    if (sequence_ == nullptr) return nullptr;
    if (only_thread_ != nullptr && only_thread_ != thisThread()) return nullptr;
    ++counters_.requests;
    const PlacedBlock* const block = advance(wanted.units);
    if (block == nullptr || block->offset_units == PlacedBlock::kNotPlaced) return nullptr;
    wanted.begin = block->offset_units;
    if (take(wanted)) {
      ++counters_.placed;
      return addressOf(wanted.begin);
    }
    if (!mayLackPages(wanted)) {
      ++counters_.late;
      return nullptr;
    }
  }
  const bool mapped = mapFor(wanted);
  const std::lock_guard guard(lock_);
  if (mapped && take(wanted)) {
    ++counters_.placed;
    return addressOf(wanted.begin);
  }
  if (!mapped) short_of_pages_ = true;
  ++counters_.late;
  return nullptr;
}

// While places are taken in order, what has none must not lie on them; nor what a step leaves
// behind its last one, which may live on: the next batch, say.
bool PlacedLane::mayLend(std::size_t request_bytes) const noexcept {
  const std::lock_guard guard(lock_);
  const std::uint32_t free_units =
      top_ - static_cast<std::uint32_t>(hole_units_) - static_cast<std::uint32_t>(live_units_);
  return sequence_ == nullptr && request_bytes <= std::size_t{free_units} * std::size_t{kUnitBytes};
}

void* PlacedLane::lend(std::size_t request_bytes) noexcept {
  const Stretch found = highestFree(unitsFor(request_bytes));
  const std::lock_guard guard(lock_);
  if (found.units == 0 || !take(found)) return nullptr;
  ++counters_.lent;
  return addressOf(found.begin);
}

// Most places are low. No units where no stretch is long enough. The lock is only held for one
// stretch after the other, so what is found may have been taken since.
PlacedLane::Stretch PlacedLane::highestFree(std::uint32_t units) const noexcept {
  Stretch found{0, 0};
  for (std::uint32_t unit = 0;;) {
    const std::lock_guard guard(lock_);
    if (unit >= top_) return found;
    bool is_taken = false;
    const std::uint32_t length = taken_.runLength(unit, top_, is_taken);
    unit += length;
    if (!is_taken && length >= units) found = {unit - units, units};
  }
}

PlacedLane::Freed PlacedLane::free(const void* block) noexcept {
  const std::uint32_t unit = unitOf(block);
  if (block != addressOf(unit)) return Freed::kNone;
  const std::lock_guard guard(lock_);
  const std::uint32_t size = size_at_[unit];
  if (size == 0) return Freed::kNone;
  live_.noteFreed(Bytes{size & ~kShared} * kUnitBytes);
  if ((size & kShared) != 0) return Freed::kShared;
  releaseUnit(unit);
  return Freed::kReleased;
}

void PlacedLane::release(const void* block) noexcept {
  const std::lock_guard guard(lock_);
  releaseUnit(unitOf(block));
}

// The lock is held.
void PlacedLane::releaseUnit(std::uint32_t unit) noexcept {
  const std::uint32_t units = std::exchange(size_at_[unit], 0) & ~kShared;
  live_units_ -= units;
  taken_.clear(unit, units);
}

Bytes PlacedLane::blockBytes(const void* block) const noexcept {
  const std::uint32_t unit = unitOf(block);
  if (block != addressOf(unit)) return 0;
  const std::lock_guard guard(lock_);
  return Bytes{size_at_[unit] & ~kShared} * kUnitBytes;
}

void PlacedLane::markShared(const void* block) noexcept {
  const std::lock_guard guard(lock_);
  std::uint32_t& size = size_at_[unitOf(block)];
  if (size != 0) size |= kShared;
}

PlacedLane::Counters PlacedLane::counters() const noexcept {
  const std::lock_guard guard(lock_);
  return counters_;
}

std::optional<PlanDeviation> PlacedLane::firstDeviation() const noexcept {
  const std::lock_guard guard(lock_);
  return first_deviation_;
}

// -----------------------------------------------------------------------------------------------
// pages

// Of these units, with the pages that they lie on, what is not mapped. paging_ is held.
std::vector<PlacedLane::Stretch> PlacedLane::unmappedIn(const Stretch& wanted) const {
  const std::uint32_t first = wanted.begin / page_units_ * page_units_;
  const std::int64_t last = roundUp(wanted.end(), page_units_);
  std::vector<Stretch> missing;
  for (const Stretch& hole : holes_) {
    const std::uint32_t from = std::max(first, hole.begin);
    const std::int64_t to = std::min(last, hole.end());
    if (from < to) missing.push_back({from, static_cast<std::uint32_t>(to - from)});
  }
  if (last > top_) missing.push_back({top_, static_cast<std::uint32_t>(topFor(last) - top_)});
  return missing;
}

std::int64_t PlacedLane::topFor(std::int64_t end) const noexcept {
  if (ledger_.roomBytes() < kRoomForGrowth) return end;
  return std::max(end, std::min<std::int64_t>(roundUp(end, kGrowthUnits), height_));
}

// Pages for a place. False if some are missing: the block goes upstream.
bool PlacedLane::mapFor(const Stretch& wanted) noexcept {
  try {
    upstream_.makeRoomForOther(unmappedBytes(wanted));  // takes paging_ after a lock of its own
    const std::lock_guard paging_guard(paging_);
    const std::vector<Stretch> missing = unmappedIn(wanted);
    holes_.reserve(holes_.size() + missing.size());
    return std::all_of(missing.begin(), missing.end(),
                       [this](const Stretch& stretch) { return mapMissing(stretch); });
  } catch (const std::bad_alloc&) {
    return false;
  }
}

Bytes PlacedLane::unmappedBytes(const Stretch& wanted) const {
  const std::lock_guard paging_guard(paging_);
  Bytes missing_bytes = 0;
  for (const Stretch& stretch : unmappedIn(wanted)) missing_bytes += stretch.units * kUnitBytes;
  return missing_bytes;
}

// A part of a hole, or what begins at the top. paging_ is held, and holes_ has room for one more.
bool PlacedLane::mapMissing(const Stretch& missing) noexcept {
  const Bytes missing_bytes = Bytes{missing.units} * kUnitBytes;
  if (!ledger_.debit(missing_bytes)) return false;
  if (!space_.map(addressOf(missing.begin), missing_bytes)) {
    ledger_.credit(missing_bytes);
    return false;
  }
  if (missing.begin == top_) {
    const std::lock_guard guard(lock_);
    top_ = static_cast<std::uint32_t>(missing.end());
    return true;
  }
  const auto hole = std::find_if(holes_.begin(), holes_.end(), [&](const Stretch& each) {
    return each.begin <= missing.begin && missing.end() <= each.end();
  });
  const Stretch before{hole->begin, missing.begin - hole->begin};
  const Stretch after{static_cast<std::uint32_t>(missing.end()),
                      static_cast<std::uint32_t>(hole->end() - missing.end())};
  if (before.units > 0) {
    *hole = before;
    if (after.units > 0) holes_.push_back(after);
  } else if (after.units > 0) {
    *hole = after;
  } else {
    *hole = holes_.back();
    holes_.pop_back();
  }
  const std::lock_guard guard(lock_);
  fill(missing);
  return true;
}

// The lock is held.
void PlacedLane::fill(const Stretch& hole) noexcept {
  hole_units_ -= hole.units;
  taken_.clear(hole.begin, hole.units);
}

// What no block lies on, whole pages; the lock is held for one at a time only.
template <typename Visit>
void PlacedLane::forEachFreeRun(Visit&& visit) const {
  for (std::uint32_t unit = 0;;) {
    bool is_taken = false;
    std::uint32_t length = 0;
    {
      const std::lock_guard guard(lock_);
      if (unit >= top_) return;
      length = taken_.runLength(unit, top_, is_taken);
    }
    const auto first = static_cast<std::uint32_t>(roundUp(unit, page_units_));
    const std::uint32_t last = (unit + length) / page_units_ * page_units_;
    if (!is_taken && first < last) visit(Stretch{first, last - first});
    unit += length;
  }
}

// The longest first. paging_ is held.
std::vector<PlacedLane::Stretch> PlacedLane::freeRuns() const {
  std::vector<Stretch> runs;
  forEachFreeRun([&](const Stretch& run) { runs.push_back(run); });
  std::sort(runs.begin(), runs.end(),
            [](const Stretch& left, const Stretch& right) { return left.units > right.units; });
  return runs;
}

Bytes PlacedLane::unmapFree(Bytes need_bytes) noexcept {
  if (freeBytes() == 0) return 0;
  const std::lock_guard paging(paging_);
  std::vector<Stretch> runs;
  try {
    runs = freeRuns();
    holes_.reserve(holes_.size() + runs.size());
  } catch (const std::bad_alloc&) {
    return 0;
  }
  // Out of reach before the device is waited for, so no work can come to use them afterwards.
  Bytes unmapped = 0;
  std::size_t count = 0;
  for (Stretch run : runs) {
    if (unmapped >= need_bytes) break;
    const Bytes wanted = roundUp((need_bytes - unmapped - 1) / kUnitBytes + 1, page_units_);
    run.units = static_cast<std::uint32_t>(std::min<Bytes>(run.units, wanted));
    const std::lock_guard guard(lock_);
    if (!taken_.tryTake(run.begin, run.units)) continue;  // a block came meanwhile
    hole_units_ += run.units;
    unmapped += Bytes{run.units} * kUnitBytes;
    runs[count++] = run;
  }
  runs.resize(count);
  if (runs.empty()) return 0;
  if (!upstream_.waitForDevice()) {
    const std::lock_guard guard(lock_);
    for (const Stretch& run : runs) fill(run);
    return 0;
  }
  for (const Stretch& run : runs) {
    space_.unmap(addressOf(run.begin), Bytes{run.units} * kUnitBytes);
    holes_.push_back(run);
  }
  ledger_.credit(unmapped);
  return unmapped;
}

Bytes PlacedLane::freeBytes() const noexcept {
  if (page_units_ == 1) {
    const std::lock_guard guard(lock_);
    return (top_ - hole_units_ - live_units_) * kUnitBytes;
  }
  Bytes units = 0;
  forEachFreeRun([&](const Stretch& run) { units += run.units; });
  return units * kUnitBytes;
}

// What is taken, but starts no block, is a hole.
void PlacedLane::describe(MappedStretches& out) const {
  const std::lock_guard paging(paging_);
  const std::lock_guard guard(lock_);
  const auto add = [&](std::uint32_t unit, std::uint32_t units, bool live) {
    out.push_back({addressOf(unit), Bytes{units} * kUnitBytes, live, stream_});
  };
  for (std::uint32_t unit = 0; unit < top_;) {
    bool is_taken = false;
    const std::uint32_t length = taken_.runLength(unit, top_, is_taken);
    if (!is_taken) add(unit, length, false);
    for (std::uint32_t at = unit; is_taken && at < unit + length;) {
      const std::uint32_t units = size_at_[at] & ~kShared;
      if (units > 0) add(at, units, true);
      at += std::max(units, 1U);
    }
    unit += length;
  }
}

void PlacedLane::lockForFork() noexcept {
  paging_.lock();
  lock_.lock();
}

void PlacedLane::unlockAfterFork() noexcept {
  lock_.unlock();
  paging_.unlock();
}

}  // namespace ebbtide::allocator
