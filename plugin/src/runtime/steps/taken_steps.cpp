#include "runtime/steps/taken_steps.hpp"

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

std::optional<RecentSteps::Medians> TakenSteps::stepTime(const Measure& of) const {
  const auto taken = recent_.mediansOf(RecentSteps::kMost, [&of](const RecentSteps::Step& step) {
    const bool untold = step.program == 0 && !of.has_plan;
    return (step.program == of.program || untold) && step.number >= of.from_step;
  });
  return taken ? taken : recent_.medians(RecentSteps::kMost);
}

}  // namespace ebbtide::plugin
