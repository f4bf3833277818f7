// TakenSteps: what the run's steps took, for those who ask, and since when they tell whether the
// budget is held. Torch-free; whoever has it guards it.
#pragma once

#include <cstdint>
#include <optional>
#include <utility>

#include "ebbtide/allocator/device_memory.hpp"
#include "runtime/steps/recent_steps.hpp"
#include "runtime/steps/recorded_steps.hpp"

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
  // Which steps are the measure of one: those of the main program since its plan's course began.
  struct Measure {
    std::uint64_t program = 0;    // 0: there is none
    std::int64_t from_step = -1;  // of the process
    bool has_plan = false;        // false: steps of unknown programs count too
  };
  // What a step takes, wherever it is told: the medians of these among the last 120 steps of the
  // process; of all 120 where there is none among them. Nothing: no step has ended.
  std::optional<RecentSteps::Medians> stepTime(const Measure& of) const;

 private:
  RecordedSteps recorded_;
  RecentSteps recent_;
  allocator::Statistics memory_;
  bool open_ = false;
  std::int64_t steps_before_ = 0, violations_before_ = 0;
};

}  // namespace ebbtide::plugin
