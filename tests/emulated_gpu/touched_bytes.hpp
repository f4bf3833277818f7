// Who wrote and read each byte last, as far as what comes later may be in no order with it.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <vector>

#include "order.hpp"

namespace emulated_gpu {

struct Touch {
  int lane = -1;             // none
  std::uint64_t number = 0;  // of the lane's tasks
  const char* name = "";

  bool operator==(const Touch& other) const { return lane == other.lane && number == other.number; }
};

// Whether it comes before what has seen that much.
bool comesBefore(const Touch& earlier, const Seen& seen);

class TouchedBytes {
 public:
  struct Range {
    std::uintptr_t begin = 0, end = 0;
  };
  using Conflict = std::function<void(const Touch& earlier, bool earlier_writes, Range)>;

  // Each earlier touch of the bytes that must be in order with this access, and is not.
  void check(const Access& access, const Seen& seen, const Conflict& conflict) const;
  void note(const Access& access, const Touch& touch, const Seen& seen);
  void forget(Range range);
  std::size_t spans() const { return spans_.size(); }

 private:
  struct Span {
    std::uintptr_t end = 0;
    Touch write = {};
    std::vector<Touch> reads = {};  // none is ordered before another
  };
  using Spans = std::map<std::uintptr_t, Span>;

  void splitAt(std::uintptr_t address);
  void noteWrite(Range range, const Touch& touch);
  void noteRead(Range range, const Touch& touch, const Seen& seen);
  void mergeIn(Range range);

  Spans spans_;  // by where they begin
};

}  // namespace emulated_gpu
