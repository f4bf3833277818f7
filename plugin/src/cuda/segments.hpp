// Segments: a device's memory as torch.cuda.memory_snapshot() shows it. One for each run of mapped
// pages; pages come and go, so torch's viewer is told that it is expandable.
#pragma once

#include <c10/core/CachingDeviceAllocator.h>

#include <vector>

#include "cuda/block_table.hpp"
#include "cuda/device_statistics.hpp"

namespace ebbtide::plugin::cuda {

// Of the table, in the order of addresses; of one private pool where `pool` is not {0, 0}.
std::vector<c10::CachingDeviceAllocator::SegmentInfo> segmentsOf(const BlockTable& table,
                                                                 c10::DeviceIndex device,
                                                                 c10::MempoolId_t pool = {0, 0});

// Where no block lies: of all runs, of those that hold a block too (torch calls it split), and the
// largest in one piece.
struct IdleMemory {
  DeviceStatistics::Idle small_split, large_split;
  Bytes bytes = 0;
  Bytes largest_bytes = 0;
};
IdleMemory idleMemoryOf(const BlockTable& table) noexcept;

}  // namespace ebbtide::plugin::cuda
