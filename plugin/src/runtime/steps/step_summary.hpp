// StepSummary: what a step that is over tells its Session. Torch-free.
#pragma once

#include <memory>

#include "plan/plan.hpp"
#include "runtime/steps/open_steps.hpp"

namespace ebbtide::plugin {

struct StepSummary {
  OpenSteps::Number opened = 0;  // as its begin said
  bool had_backward = false;
  bool recorded = false;  // `trace` is whole
  bool observed = false;  // the allocator, to its end
  bool off_plan = false;
  std::shared_ptr<const Plan> plan;  // that it began with, left or not; nullptr: none
  bool trusted = false;              // its plan was, when it began
  bool alone = true;                 // no other step was alive at its end
  bool followed = false;             // it dropped nearly all that its plan drops
  bool waited = false;               // for its backward pass, while others began
  std::int64_t uncounted_bytes = 0;  // of others' memory, which no budget counts
  scheduler::Trace trace;
};

}  // namespace ebbtide::plugin
