// What the live blocks of a step are, for the error when memory is out. Includes torch.
#include <map>
#include <string>
#include <utility>

#include "execute/step_run.hpp"

namespace ebbtide::plugin {
namespace {

using scheduler::kNone;

constexpr const char* kEvaluated = "made under no_grad since the last update (evaluation?)";

}  // namespace

std::string StepRun::nameOf(OpId op) const {
  const StepLock::Held lock(step_.lock);
  return step_.ops.nameOf(op);
}

// The first of the values that shared a block is of the op that made it.
bool StepRun::nameBlocks(LiveShares& live, Failing by) {
  const bool observes = step_.run.events.observesBy(step_.log.get());
  const StepLock::Freeing lock(step_.lock);
  for (ValueId id = 0; id < step_.values.next(); ++id) {
    const RunValue& value = step_.values[id];
    c10::Storage storage = value.stored.storage();
    if (!storage) continue;
    const bool made_here = value.producer != kNone;
    live.add(storage.data(), made_here           ? step_.ops.nameOf(value.producer)
                             : value.parameter() ? "parameters"
                                                 : "inputs");
    lock.giveUp(std::move(storage));  // perhaps the last reference by now
  }
  if (!observes) return false;
  for (const EventLog::LiveBlock& made : step_.log->liveBlocks()) {
    const bool in_op = made.op >= 0 && made.op < step_.ops.next();
    const bool evaluated = made.before_ops || (made.after_update && by.evaluates);
    live.add(made.block, in_op                  ? step_.ops.nameOf(made.op)
                         : evaluated            ? kEvaluated
                         : !made.since_backward ? "forward pass, outside of recorded operations"
                         : by.in_backward       ? "backward pass"
                                                : "since backward began (optimizer, data)");
  }
  live.nameRest("from before the step (parameters not read yet, optimizer's state, data)");
  return true;
}

StepRun::UnreadSpills StepRun::unreadSpills() const {
  const StepLock::Held lock(step_.lock);
  std::map<OpId, std::int64_t> by_op;
  UnreadSpills unread;
  for (ValueId id = 0; id < step_.values.next(); ++id) {
    const RunValue& value = step_.values[id];
    if (!value.stored.slot() || value.stored.servesLater() || value.liveUses() == 0) continue;
    unread.bytes += value.bytes;
    if (value.producer != kNone) by_op[value.producer] += value.bytes;
  }
  for (const auto& [op, bytes] : by_op) unread.by_op[step_.ops.nameOf(op)] += bytes;
  return unread;
}

}  // namespace ebbtide::plugin
