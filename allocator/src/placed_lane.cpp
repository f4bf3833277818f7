#include "placed_lane.hpp"

#include <utility>

namespace ebbtide::allocator {
namespace {

std::uint32_t unitsFor(std::size_t request_bytes) noexcept {
  return static_cast<std::uint32_t>((request_bytes - 1) / kUnitBytes + 1);
}

// The expected block, as long as no page is mapped for it.
PlacementOutcome take(const PlacedBlock* expected, ArenaUnits& units) noexcept {
  if (expected == nullptr) return PlacementOutcome::kUnforeseen;
  if (expected->offset_units == PlacedBlock::kNotPlaced) return PlacementOutcome::kElsewhere;
  const UnitRange place{expected->offset_units, expected->units};
  if (units.take(place)) return PlacementOutcome::kPlaced;
  return !units.isBelowTop(place) || units.lacksOnlyPages(place) ? PlacementOutcome::kShort
                                                                 : PlacementOutcome::kTaken;
}

}  // namespace

PlacedLane::PlacedLane(AddressSpace& space, BudgetTracker& tracker, PoolResource& upstream,
                       Stream stream, Bytes reserve_bytes,
                       ArenaPages::UnmapElsewhere unmap_elsewhere)
    : stream_(stream),
      addresses_(space, reserve_bytes),
      state_(tracker, addresses_.units()),
      pages_(space, tracker, upstream, addresses_, state_, std::move(unmap_elsewhere)) {}

PlacedLane::~PlacedLane() {
  if (state_.hold()->units.anyBlock()) addresses_.keep();
}

// -----------------------------------------------------------------------------------------------
// the step

void PlacedLane::begin(std::shared_ptr<const PlacedSequence> sequence,
                       bool this_thread_only) noexcept {
  if (sequence != nullptr) pages_.raiseTop(sequence->height_units);
  // The sequence before goes with the parameter, after the lock.
  state_.hold()->step.begin(sequence, this_thread_only);
}

void PlacedLane::beginPhase(std::size_t phase) noexcept {
  state_.hold()->step.beginPhase(phase);
}

PlacedLane::Attempt PlacedLane::place(std::size_t request_bytes) noexcept {
  if (request_bytes > static_cast<std::size_t>(addresses_.bytes())) return {};
  UnitRange wanted{0, unitsFor(request_bytes)};
  Attempt attempt;
  {
    const LockedLane::Held lane = state_.hold();
    if (!lane->step.isFollowedHere()) return attempt;
    const SequenceCursor::Expected expected = lane->step.expect(wanted.units);
    attempt.followed = true;
    attempt.move = expected.move;
    attempt.request = {.outcome = take(expected.block, lane->units),
                       .deviated = expected.deviated,
                       .bytes = Bytes{wanted.units} * kUnitBytes};
    if (expected.block != nullptr) wanted.begin = expected.block->offset_units;
    if (attempt.request.outcome != PlacementOutcome::kShort || !lane->units.isBelowTop(wanted)) {
      lane->counts.add(attempt.request);
      if (attempt.request.outcome == PlacementOutcome::kPlaced) {
        attempt.block = addresses_.addressOf(wanted.begin);
      }
      return attempt;
    }
  }
  attempt.request.outcome = pages_.mapAndTake(wanted);
  if (attempt.request.outcome == PlacementOutcome::kPlaced) {
    attempt.block = addresses_.addressOf(wanted.begin);
  }
  state_.hold()->counts.add(attempt.request);
  return attempt;
}

void PlacedLane::takeBack(const Attempt& attempt) noexcept {
  if (!attempt.followed) return;
  const LockedLane::Held lane = state_.hold();
  lane->step.takeBack(attempt.move);
  lane->counts.takeBack(attempt.request);
}

// -----------------------------------------------------------------------------------------------
// blocks of no foreseen step

// While places are taken in order, what has none must not lie on them; nor what a step leaves
// behind its last one, which may live on: the next batch, say.
bool PlacedLane::mayLend(std::size_t request_bytes) const noexcept {
  const LockedLane::HeldConst lane = state_.hold();
  return !lane->step.isForeseen() &&
         request_bytes <= static_cast<std::size_t>(lane->units.freeUnits() * kUnitBytes);
}

void* PlacedLane::lend(std::size_t request_bytes) noexcept {
  const UnitRange found = highestFree(unitsFor(request_bytes));
  const LockedLane::Held lane = state_.hold();
  if (found.units == 0 || !lane->units.take(found)) return nullptr;
  ++lane->counts.lent;
  return addresses_.addressOf(found.begin);
}

// Most places are low. No units where no range is long enough. The lock is only held for one
// range after the other, so what is found may have been taken since.
UnitRange PlacedLane::highestFree(std::uint32_t units) const noexcept {
  UnitRange found{0, 0};
  for (std::uint32_t unit = 0;;) {
    const ArenaUnits::Run run = state_.hold()->units.runFrom(unit);
    if (run.units == 0) return found;
    unit += run.units;
    if (run.is_free && run.units >= units) found = {unit - units, units};
  }
}

// -----------------------------------------------------------------------------------------------
// any block

ArenaUnits::Freed PlacedLane::free(const void* block) noexcept {
  const std::uint32_t unit = addresses_.unitOf(block);
  if (block != addresses_.addressOf(unit)) return ArenaUnits::Freed::kNone;
  return state_.hold()->units.free(unit);
}

void PlacedLane::release(const void* block) noexcept {
  state_.hold()->units.release(addresses_.unitOf(block));
}

Bytes PlacedLane::blockBytes(const void* block) const noexcept {
  const std::uint32_t unit = addresses_.unitOf(block);
  if (block != addresses_.addressOf(unit)) return 0;
  return Bytes{state_.hold()->units.blockUnits(unit)} * kUnitBytes;
}

void PlacedLane::markShared(const void* block) noexcept {
  state_.hold()->units.markShared(addresses_.unitOf(block));
}

PlacementCounts PlacedLane::counts() const noexcept {
  return state_.hold()->counts;
}

std::optional<PlanDeviation> PlacedLane::firstDeviation() const noexcept {
  return state_.hold()->step.firstDeviation();
}

void PlacedLane::lockForFork() noexcept {
  pages_.lockForFork();
  state_.lockForFork();
}

void PlacedLane::unlockAfterFork() noexcept {
  state_.unlockAfterFork();
  pages_.unlockAfterFork();
}

}  // namespace ebbtide::allocator
