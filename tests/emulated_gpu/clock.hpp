// What work takes of a stream's virtual time: the one place that times come from. Nanoseconds.
#pragma once

#include <cstddef>

namespace emulated_gpu {

using Nanoseconds = double;

inline constexpr Nanoseconds kLaunch = 4000;

// A kernel that reads and writes so many bytes: the launch, and a rate that is in proportion to
// what a CPU computes, so that plans weigh copies as they would on a device.
Nanoseconds kernelTime(std::size_t bytes);
Nanoseconds deviceCopyTime(std::size_t bytes);
Nanoseconds hostCopyTime(std::size_t bytes);
Nanoseconds spinTime(long long cycles);

}  // namespace emulated_gpu
