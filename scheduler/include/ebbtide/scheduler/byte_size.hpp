// Sizes as people write them, in the environment and on the command line, and as they read them.
#pragma once

#include <string>

#include "ebbtide/scheduler/units.hpp"

namespace ebbtide::scheduler {

// "30GiB", "30 gi" (and K, M, T), "80%" of `whole`, plain bytes; with decimals. Units have no case,
// and spaces may stand before, between and after. Throws std::invalid_argument: one sentence that
// begins with "name=text" and says what is accepted.
Bytes parseSize(const std::string& name, const std::string& text, Bytes whole);

std::string formatBytes(Bytes bytes);  // "1.50 GiB"

}  // namespace ebbtide::scheduler
