#include "job_traces.hpp"

#include <stdexcept>
#include <utility>

#include "ebbtide/scheduler/joined_ranks.hpp"
#include "ebbtide/scheduler/recorded_costs.hpp"
#include "ebbtide/scheduler/trace.hpp"
#include "text_file.hpp"

namespace ebbtide::cli {

using namespace scheduler;

namespace {

// Of steps that went on together: of one group, each rank's where it belongs.
void checkTogether(const std::vector<std::string>& paths, const std::vector<Trace>& traces) {
  const auto size = static_cast<std::int32_t>(traces.size());
  for (std::int32_t rank = 0; rank < size; ++rank) {
    const Trace& trace = traces[rank];
    const std::string& path = paths[rank];
    if (trace.group_size != size) {
      throw std::invalid_argument(path + ": recorded among " + std::to_string(trace.group_size) +
                                  " ranks, not " + std::to_string(size));
    }
    if (trace.group_rank != rank) {
      throw std::invalid_argument(path + ": recorded by rank " + std::to_string(trace.group_rank) +
                                  ", given as rank " + std::to_string(rank) + "; " +
                                  paths[trace.group_rank] + " is of rank " +
                                  std::to_string(traces[trace.group_rank].group_rank));
    }
    if (trace.group != traces[0].group) {
      throw std::invalid_argument(path + ": of the process group '" + trace.group + "', but " +
                                  paths[0] + " is of '" + traces[0].group + "'");
    }
  }
}

}  // namespace

RecordedJob::RecordedJob(const std::vector<std::string>& paths) : paths_(paths) {
  for (const std::string& path : paths) {
    const std::string text = readText(path);  // names the path itself
    try {
      traces_.push_back(traceFromJson(text));
      actions_.push_back(recogniseActions(traces_.back()));
      if (!actions_.back().refusal.empty()) throw std::invalid_argument(actions_.back().refusal);
    } catch (const std::invalid_argument& error) {
      throw std::invalid_argument(path + ": " + error.what());
    }
  }
  checkTogether(paths_, traces_);
  std::vector<std::vector<PartCosts>> none;
  for (const RankActions& rank : actions_) none.emplace_back(rank.parts, PartCosts{{{}}, 0, 0});
  outline_ = joinRanks(actions_, none).job;
}

PipelineJob RecordedJob::within(const std::vector<Bytes>& budgets,
                                std::vector<std::string>& notes) const {
  std::vector<std::vector<PartCosts>> costs;
  std::vector<std::vector<Bytes>> besides;
  for (std::size_t rank = 0; rank < traces_.size(); ++rank) {
    try {
      RecordedCosts of = costsOfParts(traces_[rank], actions_[rank], budgets[rank]);
      if (!of.no_curves.empty())
        notes.push_back(paths_[rank] + ": all kept or all recomputed alone: " + of.no_curves);
      costs.push_back(std::move(of.parts));
      besides.push_back(std::move(of.besides_bytes));
    } catch (const std::invalid_argument& error) {
      throw std::invalid_argument(paths_[rank] + ": " + error.what());
    }
  }
  PipelineJob job = joinRanks(actions_, costs).job;
  job.budgets = budgets;
  job.besides_bytes = std::move(besides);
  return job;
}

}  // namespace ebbtide::cli
