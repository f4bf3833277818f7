#include "job_traces.hpp"

#include <stdexcept>
#include <utility>

#include "ebbtide/scheduler/joined_ranks.hpp"
#include "ebbtide/scheduler/recorded_costs.hpp"
#include "ebbtide/scheduler/trace.hpp"
#include "text_file.hpp"

namespace ebbtide::cli {

using namespace scheduler;

RecordedJob::RecordedJob(const std::vector<std::string>& paths)
    : paths_(paths.size()), traces_(paths.size()), actions_(paths.size()) {
  for (const std::string& path : paths) {
    try {
      Trace trace = traceFromJson(readText(path));
      if (trace.group_size != static_cast<std::int32_t>(paths.size())) {
        throw std::invalid_argument("recorded among " + std::to_string(trace.group_size) +
                                    " ranks, not " + std::to_string(paths.size()));
      }
      std::string& taken = paths_[trace.group_rank];
      if (!taken.empty()) throw std::invalid_argument("of the same rank as " + taken);
      taken = path;
      RankActions& actions = actions_[trace.group_rank] = recogniseActions(trace);
      if (!actions.refusal.empty()) throw std::invalid_argument(actions.refusal);
      traces_[trace.group_rank] = std::move(trace);
    } catch (const std::invalid_argument& error) {
      throw std::invalid_argument(path + ": " + error.what());
    }
  }
  std::vector<std::vector<PartCosts>> none;
  for (const RankActions& rank : actions_) none.emplace_back(rank.parts, PartCosts{{{}}, 0, 0});
  outline_ = joinRanks(actions_, none).job;
}

PipelineJob RecordedJob::within(const std::vector<Bytes>& budgets,
                                std::vector<std::string>& notes) const {
  std::vector<std::vector<PartCosts>> costs;
  for (std::size_t rank = 0; rank < traces_.size(); ++rank) {
    try {
      RecordedCosts of = costsOfParts(traces_[rank], actions_[rank], budgets[rank]);
      if (!of.no_curves.empty())
        notes.push_back(paths_[rank] + ": all kept or all recomputed alone: " + of.no_curves);
      costs.push_back(std::move(of.parts));
    } catch (const std::invalid_argument& error) {
      throw std::invalid_argument(paths_[rank] + ": " + error.what());
    }
  }
  PipelineJob job = joinRanks(actions_, costs).job;
  job.budgets = budgets;
  return job;
}

}  // namespace ebbtide::cli
