// Host memory by anonymous mappings. Blocks of 4 MiB and more start on a 2 MiB boundary and ask for
// huge pages, which makes a first touch some hundred times rarer to fault.
#pragma once

#include <memory>

#include "ebbtide/allocator/caching_resource.hpp"

namespace ebbtide::allocator {

std::unique_ptr<Backend> makeHostBackend();

}  // namespace ebbtide::allocator
