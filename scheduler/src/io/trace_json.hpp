// A Trace from a parsed file, "ebbtide-trace-1" (docs/formats.md).
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "ebbtide/scheduler/trace.hpp"

namespace ebbtide::scheduler {

// Throws std::invalid_argument naming the list and the index that are wrong.
Trace traceFromTree(const nlohmann::json& tree);

}  // namespace ebbtide::scheduler
