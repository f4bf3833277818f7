// Boundary to c10: our DeviceMemory as torch's CPU allocator. Includes torch.
#pragma once

#include <c10/core/Allocator.h>
#include <c10/core/Storage.h>

#include "base/fill_pattern.hpp"
#include "ebbtide/allocator/device_memory.hpp"

namespace ebbtide::plugin {

// Puts ours in the place of torch's CPU allocator. Tensors made before keep their own deleter.
// False: storages that Python makes without a tensor (torch.UntypedStorage) stay outside.
bool installCpuAllocator(allocator::DeviceMemory& memory);

// What this thread allocates from now on is filled with the pattern. Returns the one before.
FillPattern fillNewBlocks(FillPattern pattern) noexcept;

// Before a block is given to torch: throws c10::OutOfMemoryError where an op of a step asks for it
// and the budget is known to be impossible.
void refuseBlock();

// A storage that owns a block of ours which nobody else owns.
c10::Storage adoptBlock(void* block, std::size_t bytes);

// Was this storage's memory made by our allocator, and does its data start at the block's start?
bool isOurBlock(const c10::Storage& storage) noexcept;

}  // namespace ebbtide::plugin
