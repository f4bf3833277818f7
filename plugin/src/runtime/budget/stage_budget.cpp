#include "runtime/budget/stage_budget.hpp"

#include <algorithm>
#include <iterator>

#include "ebbtide/scheduler/rank_actions.hpp"

namespace ebbtide::plugin {

// Programs that alternate may each run some of the rank's stages: all count.
bool StageBudget::noteStep(const scheduler::Trace& trace) {
  std::vector<std::int32_t> named = scheduler::namedStages(trace);
  if (named.empty()) return trace.messages.empty() && take(Source::kAlone, {rank_});
  if (source_ == Source::kNamed) {
    std::vector<std::int32_t> all;
    std::set_union(stages_.begin(), stages_.end(), named.begin(), named.end(),
                   std::back_inserter(all));
    named = std::move(all);
  }
  return take(Source::kNamed, std::move(named));
}

bool StageBudget::noteFound(std::vector<std::int32_t> stages) {
  std::sort(stages.begin(), stages.end());
  return !stages.empty() && take(Source::kFound, std::move(stages));
}

bool StageBudget::take(Source source, std::vector<std::int32_t> stages) {
  if (source < source_) return false;
  source_ = source;
  if (stages == stages_) return false;
  stages_ = std::move(stages);
  return true;
}

}  // namespace ebbtide::plugin
