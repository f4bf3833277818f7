// Rehearsals: replays are compared with the originals, which are at hand, and what one of them
// finds ends it at no cost but the plan's.
#include <algorithm>
#include <new>
#include <utility>
#include <vector>

#include "step_run_state.hpp"

namespace ebbtide::plugin {
namespace {

// Its first line.
std::string messageOf(const std::exception& error) {
  const auto* const torch_error = dynamic_cast<const c10::Error*>(&error);
  const std::string text =
      torch_error != nullptr ? torch_error->what_without_backtrace() : error.what();
  return text.substr(0, text.find('\n'));
}

}  // namespace

bool StepRun::rehearses(const RunOp& op) const {
  return rehearsing_ && op.on_plan;
}

// An op whose own replay failed is never run again. Where memory was short, or an input could not
// be had, no op is at fault: another plan may do.
void StepRun::endRehearsal(const std::exception& error) {
  const bool no_memory = dynamic_cast<const c10::OutOfMemoryError*>(&error) != nullptr ||
                         dynamic_cast<const std::bad_alloc*>(&error) != nullptr;
  const OpId at_fault = std::exchange(replaying_, kNone);
  const Locked lock(*this);
  if (at_fault != kNone && !no_memory) {
    const RunOp& op = ops_[at_fault];
    std::vector<Session::Replayed> rejected = {{op.info->name, op.known_signature}};
    const std::vector<OpId> readers = readersOfResized();
    if (std::find(readers.begin(), readers.end(), at_fault) != readers.end()) {
      for (const OpId reader : readers) {
        if (reader != at_fault)
          rejected.push_back({ops_[reader].info->name, ops_[reader].known_signature});
      }
    }
    session_.rejectReplays(rejected, messageOf(error));
  } else {
    session_.rehearsalFailed(*options_.plan, messageOf(error));
  }
  leavePlan("the rehearsal failed: " + messageOf(error));
}

// Called with mutex_ held. What one replay lacked others would: a program that frees its parameters
// and gathers them again unseen does so with all of them.
std::vector<OpId> StepRun::readersOfResized() {
  std::vector<bool> resized(values_.size(), false);
  for (std::size_t id = 0; id < values_.size(); ++id) {
    c10::Storage present = values_[id].storage();
    if (!present) continue;
    resized[id] = values_[id].resized(present);
    given_up_.push_back(std::move(present));  // perhaps the last reference by now
  }
  std::vector<OpId> readers;
  for (OpId id = 0; id < static_cast<OpId>(ops_.size()); ++id) {
    const auto& inputs = ops_[id].inputs;
    const bool reads = std::any_of(inputs.begin(), inputs.end(),
                                   [&resized](ValueId input) { return resized[input]; });
    if (reads && ops_[id].kept_because == nullptr) readers.push_back(id);
  }
  return readers;
}

// A replay that differs from the original tells of the op, or of what the program does to its
// inputs unseen. Two replays from the same inputs that differ tell of the op alone.
void StepRun::tryKernel(const RunOp& op, OpId id, int depth, const Recipe::Outputs& outputs) {
  const auto differed = [this](const auto& output) { return values_[output.second].rejected; };
  if (op.info->mutates || op.audit_key == 0) return;
  {
    std::lock_guard lock(mutex_);
    if (std::none_of(op.output_of.begin(), op.output_of.end(), differed)) return;
  }
  try {
    const Recipe::Outputs others = runAgain(op, id, depth, {});
    for (const auto& [index, output] : op.output_of) {
      const c10::Storage& first = outputs[index].storage();
      const c10::Storage& second = others.at(index).storage();
      if (first.nbytes() == second.nbytes() &&
          device_.contents.equal(first.data(), second.data(),
                                 static_cast<std::int64_t>(first.nbytes()))) {
        continue;
      }
      session_.noteUnsteady(op.audit_key);
      return;
    }
  } catch (const std::exception& error) {  // the rehearsal can do without
    session_.debug(op.info->name + " was not run a third time: " + messageOf(error));
  }
}

// Nothing: there is no original to compare with.
std::optional<bool> StepRun::sameAsOriginal(const RunValue& value, const c10::Storage& replayed) {
  c10::Storage original;
  std::optional<SpillTarget::Slot> spilled;
  {
    std::lock_guard lock(mutex_);
    if (value.uninitialised) return std::nullopt;
    original = value.storage();
    spilled = value.spilled;
  }
  const auto shorter = [&replayed](std::int64_t bytes) {
    return static_cast<std::int64_t>(replayed.nbytes()) < bytes;
  };
  if (shorter(value.bytes)) return false;
  if (!original && !spilled) {  // it died with the program's last reference: only its print is left
    if (!value.print) return std::nullopt;
    return device_.contents.match(*value.print, replayed.data(), value.bytes);
  }
  if (!original)
    return !shorter(spilled->bytes) && session_.spills().equals(*spilled, replayed.data());
  if (static_cast<std::int64_t>(original.nbytes()) < value.bytes) return false;
  return device_.contents.equal(original.data(), replayed.data(), value.bytes);
}

}  // namespace ebbtide::plugin
