// Host memory: addresses are anonymous mappings without access, pages get it when they are mapped,
// and go with MADV_DONTNEED. Extents of 2 MiB that are mapped whole may be huge pages.
#pragma once

#include <memory>

#include "ebbtide/allocator/address_space.hpp"

namespace ebbtide::allocator {

std::unique_ptr<AddressSpace> makeHostAddressSpace();

// Addresses for one pool: four times the machine's memory, since extents between blocks stay
// unmapped.
Bytes hostReserveBytes() noexcept;

}  // namespace ebbtide::allocator
