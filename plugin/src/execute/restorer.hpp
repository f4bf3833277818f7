// Restorer: brings values back: from the host, from bits, or by their ops. Results of ops are
// compared with what the originals left, and in a verification step with the originals themselves,
// where they are at hand. Includes torch.
//
//   materialize ─┬─ there: that storage
//                ├─ fetch, decode
//                └─ replay ─► inputs, each materialized ─► the op runs again ─► compared ─► adopted
//
// Thread rule: one thread at a time, which holds StepLock::Restoring and not the step's lock.
// comparedWhole() is for the thread that records, when the step is over.
#pragma once

#include <exception>
#include <optional>
#include <vector>

#include "base/fill_pattern.hpp"
#include "execute/kept_values.hpp"
#include "execute/step_parts.hpp"

namespace ebbtide::plugin {

class Restorer {
 public:
  Restorer(StepParts& step, KeptValues& kept_values) : step_(step), kept_values_(kept_values) {}

  // `depth`: of replays for it so far; 0: it is asked for itself.
  c10::Storage materialize(ValueId value, int depth);
  // --- steps of the plan
  void fetchCopy(ValueId planned);
  // `given_up`: values that the plan drops next.
  void replayPlanned(OpId planned, const std::vector<ValueId>& given_up);
  // An op whose own replay failed is never run again. Where memory was short, or an input or an
  // original could not be had, no op is at fault: another plan may do.
  void endVerification(const std::exception& error);
  // A verification step: each replay of the plan was compared.
  bool comparedWhole() const noexcept;

 private:
  struct Comparison {
    // Per output: is it the original, by all bytes? Nothing: there is none, or no verification
    // step.
    std::vector<std::optional<bool>> equal;
    ReplayTrust::SecondReplay second = ReplayTrust::SecondReplay::kNone;
  };

  ValueId stepsValue(ValueId planned) const;
  c10::Storage fetch(ValueId value);
  c10::Storage decode(RunValue& value);
  void noteFetched(const StepLock::Held&, ValueId id, RunValue& value);
  void replay(OpId op, int depth, const std::vector<ValueId>& given_up);
  FillPattern fillOf(const RunOp& op) const;
  OpRecord::Outputs runAgain(const RunOp& op, OpId id, int depth,
                             const std::vector<ValueId>& given_up, FillPattern fill);
  c10::Storage replayInput(const OpRecord::Input& input, OpId reader, int depth);
  bool looksWritten(const StepLock::Held&, const OpRecord::Input& input, RunValue& value,
                    const c10::Storage& present) const;
  c10::Storage writableInput(ValueId id, c10::Storage storage, bool given_up);
  bool endsReplay(const RunOp& op, const std::exception& error);
  void adoptOutput(const RunOp& op, ValueId id, const at::Tensor& output, std::optional<bool> equal,
                   ReplayTrust::SecondReplay second);
  void refuseOutput(const RunOp& op, ValueId id);
  bool isReadAgain(const StepLock::Held&, ValueId id, const RunValue& value) const;
  void giveUpInputs(const RunOp& op);
  std::vector<OpId> readersOfResized(const StepLock::Freeing&);
  Comparison compareReplay(const RunOp& op, OpId id, int depth, const OpRecord::Outputs& outputs,
                           FillPattern fill);
  void tryKernel(const RunOp& op, OpId id, int depth, const OpRecord::Outputs& outputs,
                 unsigned char pattern, Comparison& comparison);

  StepParts& step_;
  KeptValues& kept_values_;
  Verifications& verifications_ = step_.run.verifications;
  ReplayTrust& trust_ = step_.run.trust;
  SpillTarget& spills_ = step_.run.spills;
  ExecutorCounters& counters_ = step_.run.counters;
  RunTrace& trace_ = step_.run.trace;
  const RunLines& lines_ = step_.run.lines;
  const TrainingDevice& device_ = step_.device;
  PlanFollower& follower_ = step_.follower;
  StepLock& lock_ = step_.lock;
  Verifier& verifier_ = step_.verifier;
  OpLog& ops_ = step_.ops;
  ValueTable& values_ = step_.values;
  OpId replaying_ = scheduler::kNone;  // whose own work an exception comes from
};

}  // namespace ebbtide::plugin
