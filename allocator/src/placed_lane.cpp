#include "placed_lane.hpp"

#include <algorithm>
#include <new>
#include <utility>

#include "size_class.hpp"
#include "this_thread.hpp"

namespace ebbtide::allocator {
namespace {

constexpr std::size_t kLookAhead = 16;  // blocks: how many a step may leave out in a row

std::uint32_t unitsOf(const Reservation& reservation) noexcept {
  return static_cast<std::uint32_t>(reservation.bytes() / kUnitBytes);
}

}  // namespace

PlacedLane::PlacedLane(AddressSpace& space, BudgetTracker& tracker, PoolResource& upstream,
                       Stream stream, Bytes reserve_bytes, UnmapElsewhere unmap_elsewhere)
    : space_(space),
      tracker_(tracker),
      upstream_(upstream),
      stream_(stream),
      unmap_elsewhere_(std::move(unmap_elsewhere)),
      page_units_(static_cast<std::uint32_t>(space.pageBytes() / kUnitBytes)),
      reservation_(space, reserve_bytes),
      taken_(unitsOf(reservation_)),
      holes_(unitsOf(reservation_)),
      size_at_(unitsOf(reservation_)),
      live_(tracker) {}

PlacedLane::~PlacedLane() {
  if (live_units_ > 0) reservation_.keep();
}

// -----------------------------------------------------------------------------------------------
// the step

void PlacedLane::begin(std::shared_ptr<const PlacedSequence> sequence,
                       bool this_thread_only) noexcept {
  if (sequence != nullptr) raiseTop(sequence->height_units);
  const Held held(lock_);
  only_thread_ = this_thread_only ? thisThread() : nullptr;
  cursor_ = 0;
  first_deviation_.reset();
  sequence_.swap(sequence);  // the old one goes with the parameter, after the lock
}

// As far as there are addresses: what lies above them goes upstream.
void PlacedLane::raiseTop(Bytes height_units) noexcept {
  const auto height = static_cast<std::uint32_t>(
      std::min<Bytes>(roundUp(height_units, page_units_), unitsOf(reservation_)));
  {
    const Held held(lock_);
    if (height <= top_) return;
  }
  const Paging paging(paging_);
  const Held held(lock_);
  if (height <= top_) return;
  taken_.tryTake(top_, height - top_);
  holes_.tryTake(top_, height - top_);
  hole_units_ += height - top_;
  top_ = height;
}

void PlacedLane::beginPhase(std::size_t phase) noexcept {
  const Held held(lock_);
  if (sequence_ == nullptr || (only_thread_ != nullptr && only_thread_ != thisThread())) return;
  const std::vector<std::uint32_t>& begins = sequence_->phase_begins;
  if (phase < begins.size()) cursor_ = begins[phase];
}

// The expected block of this size, which the cursor then passes; nullptr if none is near.
const PlacedBlock* PlacedLane::advance(const Held& held, std::uint32_t units) noexcept {
  const std::vector<PlacedBlock>& blocks = sequence_->blocks;
  const std::size_t end = std::min(blocks.size(), cursor_ + kLookAhead);
  for (std::size_t i = cursor_; i < end; ++i) {
    if (blocks[i].units != units) continue;
    if (i != cursor_) noteDeviation(held, units);
    cursor_ = i + 1;
    return &blocks[i];
  }
  noteDeviation(held, units);
  return nullptr;
}

// Where the expected block of this size is to lie; notes what there is to say of the request.
inline std::uint32_t PlacedLane::expect(const Held& held, std::uint32_t units,
                                        Attempt& attempt) noexcept {
  const std::int64_t deviations = counters_.deviations;
  attempt.cursor_before = cursor_;
  const PlacedBlock* const block = advance(held, units);
  attempt.followed = true;
  attempt.deviated = counters_.deviations > deviations;
  attempt.cursor_after = cursor_;
  attempt.bytes = Bytes{units} * kUnitBytes;
  attempt.outcome = block == nullptr                                 ? Outcome::kUnforeseen
                    : block->offset_units == PlacedBlock::kNotPlaced ? Outcome::kElsewhere
                                                                     : Outcome::kPlaced;
  return block != nullptr ? block->offset_units : 0;
}

// `sign`: -1 takes it back.
inline void PlacedLane::count(const Held&, const Attempt& attempt, int sign) noexcept {
  const Bytes bytes = sign * attempt.bytes;
  counters_.bytes.requested += bytes;
  switch (attempt.outcome) {
    case Outcome::kPlaced:
      counters_.placed += sign;
      counters_.bytes.placed += bytes;
      return;
    case Outcome::kElsewhere:
      return;
    case Outcome::kUnforeseen:
      counters_.bytes.misplaced += bytes;
      return;
    case Outcome::kTaken:
      counters_.late += sign;
      counters_.bytes.misplaced += bytes;
      return;
    case Outcome::kShort:
      counters_.late += sign;
      counters_.bytes.short_of_pages += bytes;
  }
}

void PlacedLane::takeBack(const Attempt& attempt) noexcept {
  const Held held(lock_);
  if (!attempt.followed) return;
  if (cursor_ == attempt.cursor_after) cursor_ = attempt.cursor_before;
  if (attempt.deviated) --counters_.deviations;
  count(held, attempt, -1);
}

void PlacedLane::noteDeviation(const Held&, std::uint32_t units) noexcept {
  ++counters_.deviations;
  if (first_deviation_) return;
  const std::vector<PlacedBlock>& blocks = sequence_->blocks;
  const Bytes expected = cursor_ < blocks.size() ? blocks[cursor_].units * kUnitBytes : 0;
  first_deviation_ = {static_cast<std::int64_t>(cursor_), expected, units * kUnitBytes};
}

// -----------------------------------------------------------------------------------------------
// blocks

bool PlacedLane::take(const Held& held, const UnitRange& wanted) noexcept {
  if (wanted.end() > top_ || !taken_.tryTake(wanted.begin, wanted.units)) return false;
  noteBlock(held, wanted);
  return true;
}

void PlacedLane::noteBlock(const Held&, const UnitRange& block) noexcept {
  size_at_[block.begin] = block.units;
  live_units_ += block.units;
  live_.noteAllocated(Bytes{block.units} * kUnitBytes);
}

PlacedLane::Attempt PlacedLane::place(std::size_t request_bytes) noexcept {
  if (request_bytes > static_cast<std::size_t>(reservation_.bytes())) return {};
  UnitRange wanted{0, unitsFor(request_bytes)};
  Attempt attempt;
  {
    const Held held(lock_);
    if (sequence_ == nullptr) return {};
    if (only_thread_ != nullptr && only_thread_ != thisThread()) return {};
    wanted.begin = expect(held, wanted.units, attempt);
    if (attempt.outcome == Outcome::kPlaced && !take(held, wanted)) {
      const bool has_addresses = wanted.end() <= top_;
      attempt.outcome =
          lacksOnlyPages(held, wanted) || !has_addresses ? Outcome::kShort : Outcome::kTaken;
    }
    if (attempt.outcome == Outcome::kPlaced) attempt.block = addressOf(wanted.begin);
    if (attempt.outcome != Outcome::kShort || wanted.end() > top_) {
      count(held, attempt, 1);
      return attempt;
    }
  }
  attempt.outcome = mapAndTake(wanted);
  if (attempt.outcome == Outcome::kPlaced) attempt.block = addressOf(wanted.begin);
  const Held held(lock_);
  count(held, attempt, 1);
  return attempt;
}

// While places are taken in order, what has none must not lie on them; nor what a step leaves
// behind its last one, which may live on: the next batch, say.
bool PlacedLane::mayLend(std::size_t request_bytes) const noexcept {
  const Held held(lock_);
  const std::uint32_t free_units =
      top_ - static_cast<std::uint32_t>(hole_units_) - static_cast<std::uint32_t>(live_units_);
  return sequence_ == nullptr && request_bytes <= std::size_t{free_units} * std::size_t{kUnitBytes};
}

void* PlacedLane::lend(std::size_t request_bytes) noexcept {
  const UnitRange found = highestFree(unitsFor(request_bytes));
  const Held held(lock_);
  if (found.units == 0 || !take(held, found)) return nullptr;
  ++counters_.lent;
  return addressOf(found.begin);
}

// Most places are low. No units where no range is long enough. The lock is only held for one
// range after the other, so what is found may have been taken since.
UnitRange PlacedLane::highestFree(std::uint32_t units) const noexcept {
  UnitRange found{0, 0};
  for (std::uint32_t unit = 0;;) {
    const Held held(lock_);
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
  const Held held(lock_);
  const std::uint32_t size = size_at_[unit];
  if (size == 0) return Freed::kNone;
  live_.noteFreed(Bytes{size & ~kShared} * kUnitBytes);
  if ((size & kShared) != 0) return Freed::kShared;
  releaseUnit(held, unit);
  return Freed::kReleased;
}

void PlacedLane::release(const void* block) noexcept {
  const Held held(lock_);
  releaseUnit(held, unitOf(block));
}

void PlacedLane::releaseUnit(const Held&, std::uint32_t unit) noexcept {
  const std::uint32_t units = std::exchange(size_at_[unit], 0) & ~kShared;
  live_units_ -= units;
  taken_.clear(unit, units);
}

Bytes PlacedLane::blockBytes(const void* block) const noexcept {
  const std::uint32_t unit = unitOf(block);
  if (block != addressOf(unit)) return 0;
  const Held held(lock_);
  return Bytes{size_at_[unit] & ~kShared} * kUnitBytes;
}

void PlacedLane::markShared(const void* block) noexcept {
  const Held held(lock_);
  std::uint32_t& size = size_at_[unitOf(block)];
  if (size != 0) size |= kShared;
}

PlacedLane::Counters PlacedLane::counters() const noexcept {
  const Held held(lock_);
  return counters_;
}

std::optional<PlanDeviation> PlacedLane::firstDeviation() const noexcept {
  const Held held(lock_);
  return first_deviation_;
}

// -----------------------------------------------------------------------------------------------
// all of it

// What is taken is a block or a hole: paging_ is held, so none is on its way.
void PlacedLane::describe(MappedExtents& out) const {
  const Paging paging(paging_);
  const Held held(lock_);
  const auto add = [&](std::uint32_t unit, std::uint32_t units, bool live) {
    out.push_back({addressOf(unit), Bytes{units} * kUnitBytes, live, stream_});
  };
  for (std::uint32_t unit = 0; unit < top_;) {
    bool is_taken = false;
    const std::uint32_t length = taken_.runLength(unit, top_, is_taken);
    if (!is_taken) add(unit, length, false);
    for (std::uint32_t at = unit; is_taken && at < unit + length;) {
      std::uint32_t units = size_at_[at] & ~kShared;
      if (units > 0) {
        add(at, units, true);
      } else {
        bool is_hole = false;
        units = holes_.runLength(at, unit + length, is_hole);
      }
      at += units;
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
