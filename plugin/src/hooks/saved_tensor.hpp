// SavedTensor: one saved tensor of autograd's, as the default hooks keep it: packed when a node
// saves it, unpacked when that node runs backward. Includes torch.
//
// Thread rule: made and packed by the thread that runs the forward pass; unpacked, and let go of,
// by any.
#pragma once

#include <torch/csrc/autograd/saved_variable_hooks.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "execute/step_run.hpp"
#include "hooks/thread_state.hpp"
#include "record/weak_references.hpp"

namespace torch::autograd {
struct Node;
}

namespace ebbtide::plugin {

// Holds the tensor itself when its storage is not ours to release.
class SavedTensor final : public torch::autograd::SavedVariableHooks {
 public:
  // Who would keep it in plain PyTorch: a SavedVariable, or a checkpoint's frame, which keeps
  // `x.detach()` of what has a history, and asks neither for a version nor for detach_().
  enum class Keeper : std::uint8_t { kAutograd, kFrame };

  // For that tensor, which was found to be to manage; nullptr: none was looked at.
  explicit SavedTensor(const at::Tensor* to_manage, Keeper keeper = Keeper::kAutograd)
      : keeper_(keeper),
        to_manage_(to_manage != nullptr ? to_manage->unsafeGetTensorImpl() : nullptr) {}
  ~SavedTensor() override;

  void call_pack_hook(const at::Tensor& tensor) override;
  at::Tensor call_unpack_hook() override;
  std::optional<std::pair<c10::SafePyObject, c10::SafePyObject>> retrieve_unpack_hook_data()
      const override {
    return std::nullopt;
  }

  // Can it be dropped or spilled, by the step that the thread is in? What cannot is left with
  // PyTorch, which gives it back as it was.
  static bool isToManage(const at::Tensor& tensor);
  // Does the thread's step give up tensors of its kind and size, whoever saves it?
  static bool isOfAStep(const at::Tensor& tensor);

  // Not known when the op that runs now began.
  const at::Tensor& unbound() const { return strong_; }
  // The op has ended: its outputs are known.
  void bind(OpId by);

 private:
  at::Tensor otherData() const;
  at::Tensor savedItself(const c10::Storage& storage) const;
  bool isVariable() const;
  bool isOwnOutput() const;
  void checkDetached() const;
  void checkVersion() const;
  std::string makerText() const;

  const Keeper keeper_;
  std::shared_ptr<StepRun> run_;
  UseId use_ = scheduler::kNone;
  TensorView view_;
  at::Tensor strong_;
  WeakTensor saved_ = noTensor();
  WeakStorage saved_storage_ = noStorage();
  const torch::autograd::Node* maker_ = nullptr;  // its grad_fn; autograd keeps an input's
  std::int64_t maker_output_ = 0;
  bool maker_is_newest_ = false;  // of its thread's nodes, when it was saved
  bool in_op_ = false;            // it is an input of the op that saved it
  c10::VariableVersion version_counter_ = c10::VariableVersion(c10::VariableVersion::DISABLED);
  std::uint32_t version_ = 0;
  const c10::TensorImpl* const to_manage_;  // not to be followed
};

}  // namespace ebbtide::plugin
