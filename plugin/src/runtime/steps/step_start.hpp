// StepStart: what a step begins with. Torch-free.
#pragma once

#include <cstdint>
#include <memory>

#include "plan/plan.hpp"
#include "record/log/event_log.hpp"
#include "runtime/steps/open_steps.hpp"

namespace ebbtide::plugin {

struct StepStart {
  std::shared_ptr<const Plan> plan;
  std::shared_ptr<EventLog> log;
  bool record_ops = true;
  bool hooks = true;
  // A saved tensor of a smaller storage stays with torch: nothing would give it up.
  std::int64_t least_saved_bytes = 0;
  std::int64_t number = 0;  // from 1, as far as steps with a backward pass count
  OpenSteps::Number opened = 0;
};

}  // namespace ebbtide::plugin
