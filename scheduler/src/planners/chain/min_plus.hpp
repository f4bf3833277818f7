// Inner loops of the chain programs, as wide as the machine allows.
#pragma once

#include <cstddef>
#include <cstdint>

namespace ebbtide::scheduler {

// to[i] = min(to[i], a[i] + b[i] + add)
void minPlus(std::int32_t* to, const std::int32_t* a, const std::int32_t* b, std::int32_t add,
             std::size_t count);
// to[i] = min(to[i], a[i] + add)
void minPlus(std::int32_t* to, const std::int32_t* a, std::int32_t add, std::size_t count);

}  // namespace ebbtide::scheduler
