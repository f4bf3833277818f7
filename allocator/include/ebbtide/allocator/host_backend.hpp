// Host memory by anonymous mappings. Mappings of 4 MiB and more start on a 2 MiB boundary and ask
// for huge pages, which makes a first touch some hundred times rarer to fault. Blocks that the
// resource cuts from a mapping, or joins, start where they fall, so they may not be aligned to huge
// pages; what a gathered block has of a piece shorter than one is in small pages.
#pragma once

#include <memory>

#include "ebbtide/allocator/caching_resource.hpp"

namespace ebbtide::allocator {

std::unique_ptr<Backend> makeHostBackend();

}  // namespace ebbtide::allocator
