// NoBudget: the bytes that stand for no budget at all, where a rank plans without one and where it
// tells others of its own.
#pragma once

#include <cstdint>

namespace ebbtide::plugin {

inline constexpr std::int64_t kNoBudgetBytes = std::int64_t{1} << 50;

}  // namespace ebbtide::plugin
