// Fingerprint: a check sum of a value's contents, cheap enough to be taken of every dropped value.
//
// All bytes of a small value, evenly spread cache lines of a large one: a replay under other flags,
// from other inputs or another random state differs nearly everywhere. Torch-free.
#pragma once

#include <cstdint>

namespace ebbtide::plugin {

std::uint64_t fingerprint(const void* data, std::int64_t bytes) noexcept;

}  // namespace ebbtide::plugin
