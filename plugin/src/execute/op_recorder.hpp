// OpRecorder: the ops of a step as the program runs them: their signatures and op records, and
// whether they are ops of the plan, which drops values after them. Includes torch.
//
// Thread rule: one thread records.
#pragma once

#include <memory>

#include "execute/kept_values.hpp"
#include "execute/plan_drops.hpp"
#include "execute/step_parts.hpp"
#include "execute/value_recorder.hpp"
#include "execute/write_protection.hpp"

namespace ebbtide::plugin {

class OpRecorder {
 public:
  // Each outlives it. `trains`: false: its thread has run nothing backward so far.
  OpRecorder(StepParts& step, KeptValues& kept_values, WriteProtection& protection,
             ValueRecorder& recorder, PlanDrops& drops, bool trains)
      : step_(step),
        kept_values_(kept_values),
        protection_(protection),
        recorder_(recorder),
        drops_(drops),
        trains_(trains) {}

  OpId beginOp(const OpInfo& info, c10::ArrayRef<const c10::IValue> inputs);
  void endOp(OpId op, c10::ArrayRef<const c10::IValue> outputs, c10::ArrayRef<at::Tensor> saved,
             TimeSpan time);

 private:
  using Freeing = StepLock::Freeing;

  void hashInput(RunOp& op, int argument, int element, const at::Tensor& tensor);
  std::unique_ptr<OpRecord> recordOp(const RunOp& op,
                                     c10::ArrayRef<const c10::IValue> inputs) const;
  void protectWritten(const RunOp& op);
  void switchPlan(std::shared_ptr<const Plan> plan);
  bool isPlanned(const RunOp& op) const;
  void failWrites(const Freeing&, RunOp& op);
  void followPlan(RunOp& op, OpId id);
  void noteInserted(RunOp& op, OpId id);
  void noteNone(const StepLock::Held&, const RunOp& op);
  void unplanFrom(const Freeing&, ValueId first);

  StepParts& step_;
  KeptValues& kept_values_;
  WriteProtection& protection_;
  ValueRecorder& recorder_;
  PlanDrops& drops_;
  const bool trains_;
  StepEvents& events_ = step_.run.events;
  ReplayTrust& trust_ = step_.run.trust;
  const RunLines& lines_ = step_.run.lines;
  const TrainingDevice& device_ = step_.device;
  const std::shared_ptr<EventLog>& log_ = step_.log;
  const bool keeps_op_records_ = step_.keeps_op_records;
  PlanFollower& follower_ = step_.follower;
  StepLock& lock_ = step_.lock;
  OpLog& ops_ = step_.ops;
  SavedTensors<TensorView>& saved_ = step_.saved;
  ValueTable& values_ = step_.values;
};

}  // namespace ebbtide::plugin
