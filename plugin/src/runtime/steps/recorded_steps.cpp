#include "runtime/steps/recorded_steps.hpp"

#include <algorithm>
#include <utility>

namespace ebbtide::plugin {
namespace {

// Whatever the budget was: what is spilled or dropped is saved all the same.
std::int64_t heldBytes(const scheduler::Trace& trace) {
  std::vector<bool> counted(trace.blocks.size(), false);
  std::int64_t bytes = trace.base_bytes;
  for (const scheduler::ValueId value : trace.use_value) {
    const scheduler::BlockId block = trace.values[value].block;
    if (block == scheduler::kNone || trace.blocks[block].before_step || counted[block]) continue;
    counted[block] = true;
    bytes += trace.blocks[block].bytes;
  }
  return bytes;
}

}  // namespace

void RecordedSteps::noteStep(std::uint64_t program) {
  ++steps_;
  for (Recorded& known : programs_) {
    if (known.step.trace->signature == program) known.last_step = steps_;
  }
  forgetOld();
}

void RecordedSteps::add(RecordedStep step) {
  const std::int64_t bytes = heldBytes(*step.trace);
  const auto same = std::find_if(programs_.begin(), programs_.end(), [&](const Recorded& known) {
    return known.step.trace->signature == step.trace->signature;
  });
  if (same != programs_.end()) {
    *same = {std::move(step), bytes, steps_};
  } else {
    programs_.push_back({std::move(step), bytes, steps_});
  }
  forgetOld();
}

// Never the last one: what runs now may hold less than those that were kept.
void RecordedSteps::forgetOld() {
  const auto old = [this](const Recorded& known) { return known.last_step <= steps_ - kLately; };
  if (!std::all_of(programs_.begin(), programs_.end(), old)) std::erase_if(programs_, old);
  const auto ops = [this] {
    std::size_t sum = 0;
    for (const Recorded& known : programs_) sum += known.step.trace->ops.size();
    return sum;
  };
  while (programs_.size() > kMost || (programs_.size() > 1 && ops() > kMostOps))
    programs_.erase(std::min_element(programs_.begin(), programs_.end(), holdsLess));
}

std::vector<RecordedStep> RecordedSteps::all() const {
  std::vector<RecordedStep> steps;
  steps.reserve(programs_.size());
  for (const Recorded& known : programs_) steps.push_back(known.step);
  return steps;
}

RecordedStep RecordedSteps::largest() const {
  const auto most = std::max_element(programs_.begin(), programs_.end(), holdsLess);
  return most != programs_.end() ? most->step : RecordedStep{};
}

}  // namespace ebbtide::plugin
