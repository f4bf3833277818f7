// The committed step of a rank of a pipeline (tests/data/traces).
#pragma once

#include <fstream>
#include <iterator>
#include <string>

#include "base/gzip.hpp"
#include "ebbtide/scheduler/trace.hpp"

namespace ebbtide::scheduler {

inline Trace recordedRank(const std::string& pipeline, int rank) {
  const std::string path = std::string(EBBTIDE_TRACES) + "/pipelines/" + pipeline + "-" +
                           std::to_string(rank) + ".json.gz";
  std::ifstream file(path, std::ios::binary);
  return traceFromJson(
      unpackGzip({std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()}));
}

}  // namespace ebbtide::scheduler
