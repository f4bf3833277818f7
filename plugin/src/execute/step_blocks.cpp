// What the live blocks of a step are, for the error when memory is out. Includes torch.
#include <map>

#include "execute/step_run_state.hpp"

namespace ebbtide::plugin {
namespace {

constexpr const char* kEvaluated = "made under no_grad since the last update (evaluation?)";

}  // namespace

std::string StepRun::nameOf(OpId op) const {
  std::lock_guard lock(mutex_);
  return ops_.at(static_cast<std::size_t>(op)).info->name;
}

// The first of the values that shared a block is of the op that made it.
void StepRun::nameBlocks(LiveShares& live, bool in_backward) {
  const bool observes = session_.observesBy(options_.log.get());
  const Locked lock(*this);
  for (const RunValue& value : values_) {
    c10::Storage storage = value.stored.storage();
    if (!storage) continue;
    const bool made_here = value.producer != kNone;
    live.add(storage.data(), made_here         ? ops_[value.producer].info->name
                             : value.parameter ? "parameters"
                                               : "inputs");
    given_up_.push_back(std::move(storage));  // perhaps the last reference by now
  }
  if (!observes) return;
  const bool evaluates = !at::GradMode::is_enabled();
  for (const EventLog::LiveBlock& made : options_.log->liveBlocks()) {
    const bool in_op = made.op >= 0 && made.op < static_cast<OpId>(ops_.size());
    const bool evaluated = made.before_ops || (made.after_update && evaluates);
    live.add(made.block, in_op                  ? ops_[made.op].info->name
                         : evaluated            ? kEvaluated
                         : !made.since_backward ? "forward pass, outside of recorded operations"
                         : in_backward          ? "backward pass"
                                                : "since backward began (optimizer, data)");
  }
  live.nameRest("from before the step (parameters not read yet, optimizer's state, data)");
}

StepRun::UnreadSpills StepRun::unreadSpills() const {
  std::lock_guard lock(mutex_);
  std::map<OpId, std::int64_t> by_op;
  UnreadSpills unread;
  for (const RunValue& value : values_) {
    if (!value.stored.slot() || value.stored.servesLater() || value.live_uses == 0) continue;
    unread.bytes += value.bytes;
    if (value.producer != kNone) by_op[value.producer] += value.bytes;
  }
  for (const auto& [op, bytes] : by_op) unread.by_op[ops_[op].info->name] += bytes;
  return unread;
}

}  // namespace ebbtide::plugin
