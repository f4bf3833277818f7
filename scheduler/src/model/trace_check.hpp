// What every trace must fulfil before anything indexes or sums with its numbers.
#pragma once

#include <string>

#include "ebbtide/scheduler/trace.hpp"

namespace ebbtide::scheduler {

// Throws std::invalid_argument naming the first entry with an id out of range, a negative size or
// time, or bytes whose sums could come near 63 bits.
void checkTrace(const Trace& trace);

// "trace: ops[3] ..."
[[noreturn]] void failTrace(const char* list, std::size_t index, const std::string& what);

}  // namespace ebbtide::scheduler
