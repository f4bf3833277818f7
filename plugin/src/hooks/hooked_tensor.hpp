// HookedTensor: a saved tensor that hooks of the program's keep (torch.autograd.graph's
// saved_tensors_hooks), as autograd sees it. A checkpoint's hook, which only looks at sizes, is
// given a stand-in, so that what a region computes again can be spilled. Includes torch.
//
// Thread rule: as SavedTensor. No lock of ours is held while the program's hooks run.
#pragma once

#include <torch/csrc/autograd/saved_variable_hooks.h>

#include <memory>
#include <optional>
#include <utility>

namespace ebbtide::plugin {

class HookedTensor final : public torch::autograd::SavedVariableHooks {
 public:
  explicit HookedTensor(std::unique_ptr<torch::autograd::SavedVariableHooks> users)
      : users_(std::move(users)) {}

  void call_pack_hook(const at::Tensor& tensor) override;
  at::Tensor call_unpack_hook() override;
  // Compiled autograd reads it past us: nothing of a stand-in.
  std::optional<std::pair<c10::SafePyObject, c10::SafePyObject>> retrieve_unpack_hook_data()
      const override {
    return stands_in_ ? std::nullopt : users_->retrieve_unpack_hook_data();
  }

 private:
  std::unique_ptr<torch::autograd::SavedVariableHooks> users_;
  bool stands_in_ = false;
};

// The calling thread's node has ended: stand-ins that it has read end with it.
void letGoOfReadStandIns();

// The code object of the pack hook with which torch.utils.checkpoint computes a region again; it
// must live as long as the process. C++ programs set none, and have no such hook.
void setCheckpointsCode(const void* code) noexcept;

}  // namespace ebbtide::plugin
