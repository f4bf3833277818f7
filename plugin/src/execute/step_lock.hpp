// StepLock: a step's locks. One guards its values', ops' and saved tensors' lists and the values'
// state. It is never held while dispatching, allocating or freeing: the allocator may ask for bytes
// on the same thread, and a free may run the program's code. The other lets one backward thread
// restore at a time; memory that is not ours, or that Python knows, is freed after it: that may
// need Python's lock, and who has it may wait here. Includes torch.
#pragma once

#include <c10/core/Storage.h>

#include "memory/freeing_lock.hpp"

namespace ebbtide::plugin {

using StepLock = FreeingLock<c10::Storage>;

}  // namespace ebbtide::plugin
