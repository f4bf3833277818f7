// TakenSteps: what the run's steps took, for those who ask, and since when they tell whether the
// budget is held. Torch-free; whoever has it guards it.
#pragma once

#include <cstdint>
#include <optional>
#include <utility>

#include "ebbtide/allocator/device_memory.hpp"
#include "runtime/recent_steps.hpp"
#include "runtime/recorded_steps.hpp"

namespace ebbtide::plugin {

class TakenSteps {
 public:
  void begin(const allocator::Statistics& memory);
  // A step with a backward pass is over.
  void end(const allocator::Statistics& memory, const RecentSteps::Step& step);
  void record(RecordedStep step) { recorded_.add(std::move(step)); }
  void forgetRecorded() { recorded_ = {}; }
  // The budget is judged anew: earlier steps and violations tell nothing about it.
  void judgeFrom(std::int64_t steps, std::int64_t violations);

  const RecordedSteps& recorded() const { return recorded_; }
  const RecentSteps& recent() const { return recent_; }
  bool isOpen() const { return open_; }
  const allocator::Statistics& memory() const { return memory_; }  // a step last began or ended
  std::int64_t stepsBefore() const { return steps_before_; }       // the budget was judged anew
  std::int64_t violationsBefore() const { return violations_before_; }
  // The medians of the plan that is in force from that step on, or of steps without one. `steps`:
  // that have ended. Nothing: none has.
  std::optional<RecentSteps::Medians> stepTime(std::int64_t steps, std::int64_t from_step) const;

 private:
  RecordedSteps recorded_;
  RecentSteps recent_;
  allocator::Statistics memory_;
  bool open_ = false;
  std::int64_t steps_before_ = 0, violations_before_ = 0;
};

}  // namespace ebbtide::plugin
