// Op time as it is printed.
#pragma once

#include "ebbtide/scheduler/units.hpp"

namespace ebbtide::cli {

inline double seconds(scheduler::Nanoseconds ns) {
  return static_cast<double>(ns) * 1e-9;
}

// Of a schedule that takes `ns` where keeping everything takes `plain_ns`.
inline double overheadRatio(scheduler::Nanoseconds ns, scheduler::Nanoseconds plain_ns) {
  return plain_ns > 0 ? seconds(ns) / seconds(plain_ns) - 1 : 0.0;
}

}  // namespace ebbtide::cli
