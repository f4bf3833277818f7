// What the live blocks of a step are, for the error when memory is out. Includes torch.
#include "step_run_state.hpp"

namespace ebbtide::plugin {

std::string StepRun::nameOf(OpId op) const {
  std::lock_guard lock(mutex_);
  return ops_.at(static_cast<std::size_t>(op)).info->name;
}

// The first of the values that shared a block is of the op that made it.
void StepRun::nameBlocks(LiveShares& live, bool in_backward) {
  const bool observes = session_.observesBy(options_.log.get());
  const Locked lock(*this);
  for (const RunValue& value : values_) {
    c10::Storage storage = value.storage();
    if (!storage) continue;
    const bool made_here = value.producer != kNone;
    live.add(storage.data(), made_here         ? ops_[value.producer].info->name
                             : value.parameter ? "parameters"
                                               : "inputs");
    given_up_.push_back(std::move(storage));  // perhaps the last reference by now
  }
  if (!observes) return;
  for (const EventLog::LiveBlock& made : options_.log->liveBlocks()) {
    const bool in_op = made.op >= 0 && made.op < static_cast<OpId>(ops_.size());
    live.add(made.block, in_op                  ? ops_[made.op].info->name
                         : !made.since_backward ? "forward pass, outside of recorded operations"
                         : in_backward          ? "backward pass"
                                                : "since backward began (optimizer, data)");
  }
  live.nameRest("from before the step (parameters not read yet, optimizer's state, data)");
}

}  // namespace ebbtide::plugin
