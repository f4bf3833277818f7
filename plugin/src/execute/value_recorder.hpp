// ValueRecorder: the values of a step as the program makes them, writes over them and saves them.
// Includes torch.
//
//   graph input, output ─► value ── saved ─► use
//                       └ written in place ─► the next value of its storage, to which the uses of
//                                             other parts move on
//
// Thread rule: one thread records; noteUnrecordedWrite() from any.
#pragma once

#include <vector>

#include "execute/kept_values.hpp"
#include "execute/step_parts.hpp"
#include "execute/write_protection.hpp"

namespace torch::autograd {
struct Node;
}

namespace ebbtide::plugin {

class ValueRecorder {
 public:
  using Held = StepLock::Held;
  using Freeing = StepLock::Freeing;

  ValueRecorder(StepParts& step, KeptValues& kept_values, WriteProtection& protection)
      : step_(step), kept_values_(kept_values), protection_(protection) {}

  ValueId graphInput(const at::Tensor& tensor);  // its present value, or a new graph input
  // `view` is looked at until the use is released. `by`: the op that saves it, kNone between ops.
  // `maker`: the tensor's grad_fn, nullptr where that is nobody's to ask for.
  UseId addUse(ValueId value, const at::Tensor& tensor, const TensorView& view, OpId by,
               const torch::autograd::Node* maker);
  // The same for the tensor's present value; kNone: its contents are not known.
  UseId addUseOfKnown(const at::Tensor& tensor, const TensorView& view, OpId by,
                      const torch::autograd::Node* maker);
  // Between ops: its present value's, or a new graph input's.
  UseId addUseBetweenOps(const at::Tensor& tensor, const TensorView& view,
                         const torch::autograd::Node* maker);
  // The use was unpacked in that storage, with its own counter: a backward pass may save it again.
  void noteRestored(UseId use, const c10::Storage& storage, const c10::VariableVersion& version);
  void noteUnrecordedWrite(const at::Tensor& tensor);

  // --- of an op that runs
  void noteInput(const Freeing&, ValueId value, const at::Tensor& tensor);  // it reads that
  void bindOutput(const Freeing&, RunOp& op, OpId id, int index, const at::Tensor& tensor);
  void bindWrittenOver(const Freeing&, RunOp& op, OpId id, int index,
                       c10::ArrayRef<at::Tensor> saved);
  void overwrite(const Freeing&, ValueId value, OpId by);

 private:
  UseId addUse(const Freeing&, ValueId value, const at::Tensor& tensor, const TensorView& view,
               OpId by, const torch::autograd::Node* maker);
  ValueId addValue(const Freeing&, const at::Tensor& tensor, OpId producer);
  ValueId addOutput(const Freeing&, RunOp& op, OpId id, int index, const at::Tensor& tensor,
                    const ByteRange& covered);
  void coverAlso(const Held&, ValueId id, const ByteRange& covered, const c10::Storage& storage);
  void tryCode(const Held&, const RunOp& op, ValueId value);
  void takePrint(const Held&, const RunOp& op, ValueId id, const at::Tensor& tensor);
  void printGraphInput(const Held&, RunValue& value, const at::Tensor& tensor);
  bool replaysNeed(const Held&, ValueId id) const;
  Fingerprint::Extent printExtent(const RunOp& op, const RunValue& value) const;
  void passOn(const Freeing&, ValueId overwritten, ValueId successor, const c10::Storage& storage);
  std::vector<UseId> takeUsesApart(const Freeing&, ValueId from, const at::Tensor& written);
  void moveUses(const Freeing&, c10::ArrayRef<UseId> uses, ValueId to, const at::Tensor& written);
  bool joinPlan(const Held&, UseId use, ValueId value, OpId by);
  void noteRead(const Held&, ValueId value, const at::Tensor& tensor, const ByteRange& read);
  void keepOriginal(const Held&, RunValue& value, const char* why);
  void lookForWrite(const Freeing&, ValueId id, const at::Tensor& tensor, OpId reader, OpId first);
  void noteUnseenWrite(const Freeing&, ValueId id, const c10::Storage& storage, OpId first);

  StepParts& step_;
  KeptValues& kept_values_;
  WriteProtection& protection_;
  TrainedMemory& trained_ = step_.run.trained;
  const TrainingDevice& device_ = step_.device;
  const std::shared_ptr<EventLog>& log_ = step_.log;
  PlanFollower& follower_ = step_.follower;
  StepLock& lock_ = step_.lock;
  Verifier& verifier_ = step_.verifier;
  OpLog& ops_ = step_.ops;
  SavedTensors<TensorView>& saved_ = step_.saved;
  TrainedLeaves& leaves_ = step_.leaves;
  KeptGraphs& graphs_ = step_.graphs;
  ValueTable& values_ = step_.values;
};

}  // namespace ebbtide::plugin
