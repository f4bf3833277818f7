// What is left of something that streams share over virtual time: a device's compute and HBM, an
// engine of copies. What is asked for first is served first; later work takes what that leaves, so
// the sum never exceeds one.
#pragma once

#include <map>

#include "time_table.hpp"

namespace emulated_gpu {

class Capacity {
 public:
  struct Span {
    Nanoseconds begin = 0, end = 0;
  };
  // `work` nanoseconds of all of it, not before `ready`. Where `beside` is in use, it goes at
  // `rate_beside` of its speed.
  Span take(Nanoseconds ready, Nanoseconds work, const Capacity* beside = nullptr,
            double rate_beside = 1);
  // A share for as long as the span, of what is left of it.
  void occupy(Span span, double share);
  // Nothing is asked for any more that begins before.
  void forget(Nanoseconds before);

 private:
  using Steps = std::map<Nanoseconds, double>;  // from then on so much is taken

  double takenAt(Nanoseconds at) const;
  Nanoseconds nextChange(Nanoseconds after) const;  // infinite: none
  void add(Span span, double share);

  Steps taken_;
};

}  // namespace emulated_gpu
