// A pipelined job as people write it down: docs/pipelines.md has the keys.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "ebbtide/scheduler/pipeline_job.hpp"

namespace ebbtide::cli {

struct JobFile {
  scheduler::PipelineJob job;  // of one pipeline
  std::string schedule;  // "1f1b"; "actions" where they are listed, "recorded" where traces say it
  std::int32_t data_parallel = 1;  // equal pipelines; rank r has the same budget in each
  std::vector<std::string> notes;  // what a plan does without, a line each
};

// Paths in it are from `folder`. Throws std::invalid_argument: the line, the key and what is wrong.
JobFile jobFromToml(const std::string& text, const std::string& folder);

}  // namespace ebbtide::cli
