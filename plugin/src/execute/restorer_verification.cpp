// Verification steps: replays are compared with the originals, which are at hand, and what one of
// them finds ends it at no cost but the plan's.
#include <algorithm>
#include <utility>

#include "base/message_table.hpp"
#include "execute/poison_scope.hpp"
#include "execute/restorer.hpp"
#include "execute/unreadable_spill.hpp"
#include "record/replay_errors.hpp"

namespace ebbtide::plugin {

using scheduler::kNone;

// An op whose own replay failed is never run again. Where memory was short, or an input or an
// original could not be had, no op is at fault: another plan may do.
void Restorer::endVerification(const std::exception& error) {
  const bool no_ops_fault = isOutOfMemory(error) || isUnreadableSpill(error);
  const OpId at_fault = std::exchange(replaying_, kNone);
  const StepLock::Freeing lock(lock_);
  if (at_fault != kNone && !no_ops_fault) {
    const RunOp& op = ops_[at_fault];
    std::vector<ReplayTrust::Replay> rejected = {{op.info->name, op.known_signature}};
    const std::vector<OpId> readers = readersOfResized(lock);
    if (std::find(readers.begin(), readers.end(), at_fault) != readers.end()) {
      for (const OpId reader : readers) {
        if (reader != at_fault)
          rejected.push_back({ops_[reader].info->name, ops_[reader].known_signature});
      }
    }
    trust_.reject(rejected, reasonOf(error));
  } else {
    verifications_.failed(*follower_.plan(), messageOf(error));
  }
  kept_values_.leavePlan(lock, "the verification step failed: " + messageOf(error));
}

// What one replay lacked others would: a program that frees its parameters and gathers them again
// unseen does so with all of them.
std::vector<OpId> Restorer::readersOfResized(const StepLock::Freeing& lock) {
  std::vector<bool> resized(static_cast<std::size_t>(values_.next()), false);
  for (ValueId id = 0; id < values_.next(); ++id) {
    c10::Storage present = values_[id].stored.storage();
    if (!present) continue;
    resized[id] = values_[id].resized(present);
    lock.giveUp(std::move(present));  // perhaps the last reference by now
  }
  std::vector<OpId> readers;
  for (OpId id = 0; id < ops_.next(); ++id) {
    const auto& inputs = ops_[id].inputs;
    const bool reads = std::any_of(inputs.begin(), inputs.end(),
                                   [&resized](ValueId input) { return resized[input]; });
    if (reads && ops_[id].kept_because == nullptr) readers.push_back(id);
  }
  return readers;
}

Restorer::Comparison Restorer::compareReplay(const RunOp& op, OpId id, int depth,
                                             const OpRecord::Outputs& outputs, FillPattern fill) {
  Comparison comparison;
  auto& equal = comparison.equal;
  for (const auto& [index, output] : op.output_of) {
    TORCH_CHECK(index < static_cast<int>(outputs.size()),
                withCode(c10::str("ebbtide: ", op.info->name,
                                  " gave other results when it was run again: fewer tensors. "
                                  "EBBTIDE=1 trains without dropping anything")));
    equal.emplace_back(verifies(follower_, op)
                           ? verifier_.sameAsOriginal(values_[output], outputs[index].storage())
                           : std::nullopt);
  }
  const bool differs = std::find(equal.begin(), equal.end(), false) != equal.end();
  // Of an op that nobody has looked at, one replay may be equal by chance; on a GPU each is
  // compared.
  const bool unknown =
      verifies(follower_, op) && op.info->repeats_because == nullptr && device_.contents.onHost();
  const bool may_run = !op.info->mutates && fill;
  if ((differs || unknown) && may_run) tryKernel(op, id, depth, outputs, *fill, comparison);
  return comparison;
}

// A replay that differs from the original tells of the op, or of what the program does to its
// inputs unseen. Two replays from the same inputs, each in memory that was filled with another
// pattern, tell of the op alone: it does not repeat, or leaves bytes unwritten, which no result is
// judged by.
void Restorer::tryKernel(const RunOp& op, OpId id, int depth, const OpRecord::Outputs& outputs,
                         unsigned char pattern, Comparison& comparison) try {
  auto& equal = comparison.equal;
  const OpRecord::Outputs others = runAgain(op, id, depth, {}, kZeros);
  const auto same = [&](std::size_t i, const void* original) {
    const auto& [index, output] = op.output_of[i];
    const RunValue& value = values_[output];
    const c10::Storage& first = outputs[index].storage();
    const c10::Storage& second = others.at(index).storage();
    if (first.nbytes() != second.nbytes()) return false;
    if (static_cast<std::int64_t>(first.nbytes()) < value.covered().end) return false;
    const void* const one = value.coveredIn(first);
    const void* const other = value.coveredIn(second);
    return device_.contents.equalWhereWritten(
        original == nullptr ? one : value.covered().in(original), {one, pattern}, {other, kZeros},
        value.covered().bytes());
  };
  for (std::size_t i = 0; i < equal.size(); ++i) {
    if (same(i, nullptr)) continue;
    std::fill(equal.begin(), equal.end(), false);
    comparison.second = ReplayTrust::SecondReplay::kDiffers;
    return trust_.distrust(op.info->name);
  }
  comparison.second = ReplayTrust::SecondReplay::kAgrees;
  bool unwritten = false;
  for (std::size_t i = 0; i < equal.size(); ++i) {
    if (equal[i].value_or(true)) continue;
    const RunValue& value = values_[op.output_of[i].second];
    const c10::Storage original = verifier_.originalOf(value);
    // Freed or shrunk since it was made: nothing to compare with.
    if (!original || static_cast<std::int64_t>(original.nbytes()) < value.covered().end) continue;
    if (!same(i, original.data())) continue;
    equal[i] = unwritten = true;
  }
  if (unwritten) trust_.noteUnwritten(op.info->name);
} catch (const UnreadableSpill&) {  // of an original: whether the replay is right is not known
  throw;
} catch (const std::exception& error) {  // the verification step can do without
  lines_.debug(op.info->name + " was not run a third time: " + messageOf(error));
}

bool Restorer::comparedWhole() const noexcept {
  if (!follower_.verifies() || follower_.offPlan()) return false;
  const std::vector<bool>& replayed = follower_.plan()->ops.replayed;
  for (std::size_t op = 0; op < replayed.size(); ++op) {
    if (!replayed[op]) continue;
    const OpId here = follower_.stepsOp(static_cast<OpId>(op));
    if (here == kNone || !ops_[here].compared.value_or(false)) return false;
    for (const ValueId output : ops_[here].outputs) {
      if (values_[output].rejected()) return false;
    }
  }
  return true;
}

}  // namespace ebbtide::plugin
