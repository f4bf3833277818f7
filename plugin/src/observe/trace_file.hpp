// The file of a RunTrace: JSON as Chrome's trace viewer has it, one event a line. Torch-free.
//
//   pid   the rank                 tid   the system's number of the thread, as in torch.profiler's
//   ts    microseconds since baseTimeNanoseconds, which torch.profiler's file of the same run has
#pragma once

#include <cstdint>
#include <vector>

#include "ebbtide/metrics/whole_file.hpp"
#include "nccl/communication_waits.hpp"
#include "observe/run_trace.hpp"

namespace ebbtide::plugin {

struct TraceLabels {
  int rank = 0;
  std::vector<CommunicationWait> waits = {};  // that NCCL told of
};

// What Kineto takes off all times: so many seconds, about three months, fit in them as often as
// possible. Both since 1970.
constexpr std::int64_t kinetoBaseNs(std::int64_t unix_ns) noexcept {
  constexpr std::int64_t kInterval = 7'889'238LL * 1'000'000'000;
  return unix_ns / kInterval * kInterval;
}

void writeTraceFile(const TraceRecording& recording, const TraceLabels& labels,
                    metrics::WholeFile& file);

}  // namespace ebbtide::plugin
