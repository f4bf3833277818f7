// Buffers placed so far, floors of those left, and why. A floor is an offset below which the buffer
// is in no settled placement (each buffer rests on the ground or on another one) in which what is
// placed is where it is.
//
// Each floor has its reasons: the placed buffers that it depends on. So has each failure: no
// settled placement has all of them where they are.
#pragma once

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "placement/live_sections.hpp"
#include "placement/time_neighbours.hpp"

namespace ebbtide::scheduler {

class FloorState {
 public:
  // The arguments outlive this.
  FloorState(const LiveSections& sections, const TimeNeighbours& neighbours, Bytes height_bytes);

  bool isPlaced(std::int32_t span) const { return placed_[span] != 0; }
  Bytes floor(std::int32_t span) const { return floors_[span]; }  // of a placed one: its offset
  const std::vector<Bytes>& floors() const { return floors_; }
  // Top of what is placed below it.
  Bytes ground(std::int32_t span) const;
  // Bytes of a section that no buffer needs.
  Bytes room(std::int32_t section) const;
  // Does a buffer left live on from the section before?
  bool isCrossed(std::int32_t section) const { return crossing_[section] > 0; }
  // Of what is left and alive with it, nothing is before or after it, and the ground is even: what
  // would be below it may as well be above.
  bool mayAsWellRest(std::int32_t span) const;

  // These return whether what is left may still fit; if not, the conflict is set. `span` is one of
  // the lowest floors of those left that share a section with it.
  bool check();
  bool rest(std::int32_t span);  // places it at its floor, which is the ground
  bool lift(std::int32_t span);  // it is not at its floor, for the reasons in the conflict

  std::size_t mark() const { return changes_.size(); }
  void undo(std::size_t mark);  // all since

  // Reasons for the latest failure.
  void clearConflict();
  bool takeFromConflict(std::int32_t span);  // returns whether it was there
  // Why `span` rests on nothing but a buffer left, unless it is at its floor: where those placed
  // are, and why its own floor and those of the others are not lower.
  void addSurroundings(std::int32_t span);

  // How often each span was one of those that did not fit.
  const std::vector<std::int64_t>& blame() const { return blame_; }

 private:
  struct Change {
    enum class Kind : std::uint8_t {
      kPlaced,
      kRaised,  // above `reason`, which was placed
      kLifted,  // for the reasons in the set with the number `reason`
    } kind;
    std::int32_t span = 0;
    std::int32_t latest = kNone;  // latest_ of the span before
    std::int32_t reason = kNone;
    Bytes floor = 0;  // of the span before
  };

  bool fits(std::int32_t section);
  bool fitAll(std::int32_t first, std::int32_t end, Bytes highest);
  void explain();
  void setFloor(std::int32_t span, Bytes floor, Change::Kind kind, std::int32_t reason);
  void addReasons(std::int32_t span);
  void unplace(std::int32_t span);

  const LiveSections& sections_;
  const TimeNeighbours& neighbours_;
  const Bytes height_bytes_;
  // Of each span.
  std::vector<Bytes> floors_;
  std::vector<char> placed_;
  std::vector<std::int32_t> latest_;  // change of the floor, in changes_
  std::vector<std::int64_t> blame_;
  // Of each section.
  std::vector<Bytes> ground_;
  std::vector<Bytes> left_bytes_;
  std::vector<Bytes> highest_;          // floor of what is left, or more
  std::vector<std::int32_t> crossing_;  // spans left that are in the section before too
  // To be undone, the last first.
  std::vector<Change> changes_;
  std::vector<Bytes> grounds_before_;  // in the sections of placed spans
  // Sets of spans, as bits.
  std::size_t words_;
  std::vector<std::uint64_t> sets_;
  std::vector<std::uint64_t> conflict_;
  // Those left in the section of fits(), by floor.
  std::vector<std::pair<Bytes, std::int32_t>> by_floor_;
};

}  // namespace ebbtide::scheduler
