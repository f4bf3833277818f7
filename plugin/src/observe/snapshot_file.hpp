// The file of a memory snapshot: a pickle as torch.cuda.memory._snapshot() gives it, so that
// torch's viewers open it. Torch-free.
//
//   segments        adjacent extents of mapped memory, and the blocks in them
//   device_traces   what came and went: alloc, free_requested and free_completed, oldest first
#pragma once

#include "ebbtide/allocator/mapped_extent.hpp"
#include "ebbtide/metrics/whole_file.hpp"
#include "observe/memory_history.hpp"

namespace ebbtide::plugin {

// `mapped`: when the last event had been, in the order of addresses.
void writeSnapshotFile(const allocator::MappedExtents& mapped, const MemoryHistory& history,
                       metrics::WholeFile& file);

}  // namespace ebbtide::plugin
