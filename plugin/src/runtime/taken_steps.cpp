#include "runtime/taken_steps.hpp"

#include <algorithm>
#include <cstddef>

#include "base/system_time.hpp"

namespace ebbtide::plugin {

void TakenSteps::begin(const allocator::Statistics& memory) {
  memory_ = memory;
  open_ = true;
}

void TakenSteps::end(const allocator::Statistics& memory, const RecentSteps::Step& step) {
  memory_ = memory;
  open_ = false;
  if (step.program != 0) recorded_.noteStep(step.program);
  recent_.add(step, unixSeconds());
}

void TakenSteps::judgeFrom(std::int64_t steps, std::int64_t violations) {
  steps_before_ = steps;
  violations_before_ = violations;
}

std::optional<RecentSteps::Medians> TakenSteps::stepTime(std::int64_t steps,
                                                         std::int64_t from_step) const {
  const std::int64_t since = std::max<std::int64_t>(1, from_step);
  const std::int64_t of_plan = std::max<std::int64_t>(1, steps - since + 1);
  return recent_.medians(std::min(RecentSteps::kMost, static_cast<std::size_t>(of_plan)));
}

}  // namespace ebbtide::plugin
