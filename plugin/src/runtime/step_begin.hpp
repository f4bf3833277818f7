// StepBegin: how it all was when a step began: what the step did is the difference. Torch-free.
#pragma once

#include <cstdint>

#include "base/run_clock.hpp"
#include "ebbtide/allocator/device_memory.hpp"
#include "observe/executor_counters.hpp"

namespace ebbtide::plugin {

struct StepBegin {
  RunClock::time_point at;
  allocator::Statistics memory;
  ExecutorCounters::Totals executor;
  std::int64_t late_backwards = 0;
  std::int64_t activation_bytes = 0;  // that it has made when its backward pass begins
};

}  // namespace ebbtide::plugin
