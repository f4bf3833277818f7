#include "job_traces.hpp"

#include <stdexcept>
#include <utility>

#include "ebbtide/scheduler/joined_ranks.hpp"
#include "ebbtide/scheduler/recorded_costs.hpp"
#include "ebbtide/scheduler/trace.hpp"
#include "text_file.hpp"

namespace ebbtide::cli {

using namespace scheduler;

PipelineJob jobFromTraces(const std::vector<std::string>& paths) {
  std::vector<RankActions> ranks(paths.size());
  std::vector<std::vector<PartCosts>> costs(paths.size());
  std::vector<std::string> path_of(paths.size());
  for (const std::string& path : paths) {
    try {
      const Trace trace = traceFromJson(readText(path));
      if (trace.group_size != static_cast<std::int32_t>(paths.size())) {
        throw std::invalid_argument("recorded among " + std::to_string(trace.group_size) +
                                    " ranks, not " + std::to_string(paths.size()));
      }
      std::string& taken = path_of[trace.group_rank];
      if (!taken.empty()) throw std::invalid_argument("of the same rank as " + taken);
      taken = path;
      RankActions actions = recogniseActions(trace);
      if (!actions.refusal.empty()) throw std::invalid_argument(actions.refusal);
      costs[trace.group_rank] = costsOfParts(trace, actions);
      ranks[trace.group_rank] = std::move(actions);
    } catch (const std::invalid_argument& error) {
      throw std::invalid_argument(path + ": " + error.what());
    }
  }
  return joinRanks(ranks, costs).job;
}

}  // namespace ebbtide::cli
