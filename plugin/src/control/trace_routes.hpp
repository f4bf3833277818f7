// POST /v1/trace and POST /v1/snapshot. Both answer at once, with the path of a file that is there
// when the last of the steps is over. Torch-free.
#pragma once

#include <functional>
#include <optional>

#include "ebbtide/metrics/routes.hpp"
#include "observe/memory_snapshots.hpp"
#include "observe/run_trace.hpp"

namespace ebbtide::plugin {

// Why a request is not this rank's; nothing: it is.
using RankCheck = std::function<std::optional<metrics::Response>(const metrics::Request&)>;

// All must outlive the routes.
void addTraceRoutes(metrics::Routes& routes, RunTrace& trace, MemorySnapshots& snapshots,
                    const RankCheck& of_another_rank);

// The answer of the second one; `path` empty: it is ours to choose. A path comes from this process
// alone: nobody else names files here.
metrics::Response startSnapshot(MemorySnapshots& snapshots, const std::string& path);

}  // namespace ebbtide::plugin
