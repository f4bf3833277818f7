// A pipelined job from the steps that its ranks recorded.
#pragma once

#include <string>
#include <vector>

#include "ebbtide/scheduler/pipeline_job.hpp"
#include "ebbtide/scheduler/rank_actions.hpp"
#include "ebbtide/scheduler/trace.hpp"

namespace ebbtide::cli {

class RecordedJob {
 public:
  // Of each rank a file, in their order. Throws std::invalid_argument: the file and what is wrong.
  explicit RecordedJob(const std::vector<std::string>& paths);

  // Without what microbatches cost: which stages each rank runs.
  const scheduler::PipelineJob& outline() const { return outline_; }
  // Only what the traces say is set, and the budgets: latency and the like are the caller's. Adds
  // to `notes` which ranks have two points alone, and why. Throws as above.
  scheduler::PipelineJob within(const std::vector<scheduler::Bytes>& budgets,
                                std::vector<std::string>& notes) const;

 private:
  std::vector<std::string> paths_;  // of each rank, as the others
  std::vector<scheduler::Trace> traces_;
  std::vector<scheduler::RankActions> actions_;
  scheduler::PipelineJob outline_;
};

}  // namespace ebbtide::cli
