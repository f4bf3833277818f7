// What libraries registered with torch to be called when device memory is short: memory that other
// processes have let go of, for one.
#pragma once

namespace ebbtide::plugin::cuda {

// True when one says that it freed something. No lock of ours may be held: they free blocks.
bool runFreeMemoryCallbacks();

}  // namespace ebbtide::plugin::cuda
