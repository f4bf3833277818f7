// Exact search for a placement of at most a given height, after minimalloc (Moffitt, "MiniMalloc: A
// Lightweight Memory Allocator for Hardware-Accelerated Machine Learning", ASPLOS 2023).
//
// The search takes the buffer left whose floor (floor_state.hpp) is the lowest, and
//   rests it there: whatever is left and alive with it comes above it; or
//   lifts it: it rests on a buffer left, so its floor is at least the lowest top of one.
// In each section, the buffers left have to fit between their floors and the height, one after the
// other. Where no buffer left crosses from one section to the next, both sides are searched apart.
// A buffer that is not among the reasons for what failed above it need not be lifted: it would fail
// for the same reasons (conflict-directed backjumping: Prosser, "Hybrid Algorithms for the
// Constraint Satisfaction Problem", 1993).
#pragma once

#include <atomic>
#include <cstdint>
#include <vector>

#include "base/search_end.hpp"
#include "placement/floor_state.hpp"

namespace ebbtide::scheduler {

struct FloorSearchLimits {
  std::int64_t nodes = 0;
  SearchEnd end = {};
  const std::atomic<bool>* cancelled = nullptr;  // by another attempt that succeeded; may be none
};

class FloorSearch {
 public:
  enum class Outcome {
    kFound,
    kImpossible,  // there is no such placement
    kStopped,     // at a limit
  };

  // `order`: numbers of all spans; of buffers with the same floor the first in it is tried first.
  // The arguments outlive this.
  FloorSearch(const LiveSections& sections, const TimeNeighbours& neighbours,
              const std::vector<std::int32_t>& order, Bytes height_bytes);

  Outcome run(const FloorSearchLimits& limits);

  // After kFound: of each span.
  const std::vector<Bytes>& offsets() const { return state_.floors(); }
  const std::vector<std::int64_t>& blame() const { return state_.blame(); }

 private:
  // Sections [first, end) and the buffers left in them, in the order of the search.
  struct Part {
    std::int32_t first = 0, end = 0;
    Bytes room = 0;  // of the section with the least
    std::vector<std::int32_t> spans;
  };

  bool solve(const Part& part);
  bool solveApart(const Part& part);
  bool restOrLift(const Part& part, std::int32_t span, bool& solved);
  std::vector<Part> split(const Part& part) const;
  bool isSplit(const Part& part) const;
  std::int32_t lowest(const Part& part) const;
  bool stop();

  const LiveSections& sections_;
  const std::vector<std::int32_t>& order_;
  FloorState state_;
  FloorSearchLimits limits_;
  std::int64_t nodes_ = 0;
  bool stopped_ = false;
};

}  // namespace ebbtide::scheduler
