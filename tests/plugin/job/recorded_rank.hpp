// A step that one of four processes recorded (1F1B), or of two (zero bubble).
#pragma once

#include <fstream>
#include <iterator>
#include <string>

#include "../../../scheduler/src/base/gzip.hpp"
#include "ebbtide/scheduler/op_durations.hpp"
#include "ebbtide/scheduler/trace.hpp"

namespace ebbtide::plugin {

inline scheduler::Trace recordedRank(int rank, const std::string& pipeline = "1f1b") {
  std::ifstream file(std::string(EBBTIDE_TEST_DATA) + "/../../data/traces/pipelines/" + pipeline +
                         "-" + std::to_string(rank) + ".json.gz",
                     std::ios::binary);
  scheduler::Trace trace = scheduler::traceFromJson(scheduler::unpackGzip(
      {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()}));
  scheduler::OpDurations durations;
  durations.merge(trace);
  return trace;
}

}  // namespace ebbtide::plugin
