// What work takes of virtual time. In the schedule *timed* a task's times are known when its stream
// comes to it: when it was asked for, what its stream did before, what other streams left of the
// device, the table. Else each stream has a clock, and times are in proportion to what a CPU
// computes. Under the device's lock.
#pragma once

#include <cstddef>
#include <cstdint>

#include "seam.h"
#include "time_table.hpp"

struct CUstream_st;

namespace emulated_gpu {

struct Task;

// The part of the device that a task keeps busy.
enum class Engine { kNone, kCompute, kToDevice, kToHost, kCommunication };

inline constexpr Nanoseconds kLaunch = 4000;  // not timed

// Not timed: a kernel that reads and writes so many bytes, the launch, and a rate that makes plans
// weigh copies as they would on a device. Timed: by the table, of a whole device.
Nanoseconds kernelTime(const emulated_gpu_demand& demand);
Nanoseconds kernelTime(std::size_t bytes);  // of memory
Nanoseconds deviceCopyTime(std::size_t bytes);
// One of the ends is pageable memory of the host, or none.
Nanoseconds hostCopyTime(std::size_t bytes, bool to_host, bool pageable);
Nanoseconds spinTime(long long cycles);
Nanoseconds communicationTime(std::size_t bytes, int ranks);  // timed

// The stream comes to it: its clock is the task's end from now on.
void timeTask(CUstream_st& stream, const Task& task);
// When the stream's task of this number ended; of tasks long ago, the earliest that is known.
Nanoseconds endOf(const CUstream_st& stream, std::uint64_t number);

}  // namespace emulated_gpu
