#include "hooks/variable_hooks.hpp"

#include <ATen/core/VariableHooksInterface.h>
#include <torch/csrc/autograd/saved_variable.h>

#include <exception>
#include <functional>
#include <string>
#include <utility>

#include "execute/live_runs.hpp"
#include "hooks/thread_state.hpp"
#include "record/replay_errors.hpp"
#include "runtime/session.hpp"

namespace ebbtide::plugin {
namespace {

using at::TensorBase;
using Interface = at::impl::VariableHooksInterface;

// shared_ptr up to torch 2.14, intrusive_ptr from then on.
using GradientFunction = decltype(std::declval<const Interface&>().grad_fn(TensorBase()));

// SavedVariable's constructor asks its tensor for its version, then whether it is a leaf, then the
// engine for hooks (saved_variable.cpp). Not to be followed but then.
struct Asked {
  const TensorBase* version = nullptr;
  const TensorBase* leaf = nullptr;  // of the same tensor, right after it
};

Asked& asked() noexcept {
  thread_local Asked state;
  return state;
}

class WatchedHooks final : public Interface {
 public:
  explicit WatchedHooks(const Interface& inner) : inner_(inner) {}

  TensorBase tensor_data(const TensorBase& self) const override { return inner_.tensor_data(self); }
  TensorBase variable_data(const TensorBase& self) const override {
    return inner_.variable_data(self);
  }
  GradientFunction grad_fn(const TensorBase& self) const override { return inner_.grad_fn(self); }
  unsigned _register_hook(const TensorBase& self,
                          std::function<TensorBase(const TensorBase&)> hook) const override {
    return inner_._register_hook(self, std::move(hook));
  }
  void remove_hook(const TensorBase& self, unsigned pos) const override {
    inner_.remove_hook(self, pos);
  }
  bool is_view(const TensorBase& self) const override { return inner_.is_view(self); }
  const TensorBase& base(const TensorBase& self) const override { return inner_.base(self); }
  const std::string& name(const TensorBase& self) const override { return inner_.name(self); }
  bool is_leaf(const TensorBase& self) const override {
    Asked& last = asked();
    last.leaf = last.version == &self ? &self : nullptr;
    return inner_.is_leaf(self);
  }
  std::int64_t output_nr(const TensorBase& self) const override { return inner_.output_nr(self); }
  void set_data(const TensorBase& self, const TensorBase& data) const override {
    tellRuns(self, &LiveRuns::expectOtherData);
    inner_.set_data(self, data);
    tellRuns(self, &LiveRuns::noteOtherData);
  }
  TensorBase data(const TensorBase& self) const override { return inner_.data(self); }
  std::int64_t _version(const TensorBase& self) const override {
    asked() = {&self, nullptr};
    return inner_._version(self);
  }
  void retain_grad(const TensorBase& self) const override { inner_.retain_grad(self); }
  bool retains_grad(const TensorBase& self) const override { return inner_.retains_grad(self); }
  void _backward(const at::Tensor& self, at::TensorList inputs,
                 const std::optional<at::Tensor>& gradient, std::optional<bool> keep_graph,
                 bool create_graph) const override {
    inner_._backward(self, inputs, gradient, keep_graph, create_graph);
  }
  void requires_grad_(const TensorBase& self, bool requires_grad) const override {
    inner_.requires_grad_(self, requires_grad);
  }
  void basic_autograd_not_implemented_fallback(const c10::OperatorHandle& op,
                                               c10::DispatchKeySet dispatch_keys,
                                               torch::jit::Stack* stack) const override {
    inner_.basic_autograd_not_implemented_fallback(op, dispatch_keys, stack);
  }
  std::optional<c10::ScalarType> grad_dtype(const TensorBase& self) const override {
    return inner_.grad_dtype(self);
  }
  void set_grad_dtype(const TensorBase& self,
                      const std::optional<c10::ScalarType>& dtype) const override {
    inner_.set_grad_dtype(self, dtype);
  }

 private:
  static void tellRuns(const TensorBase& self, void (LiveRuns::*tell)(const at::Tensor&)) {
    if (passThrough()) return;
    try {
      (liveRuns().*tell)(at::Tensor(self));
    } catch (const std::exception& error) {
      Session::current()->drops().disable(messageOf(error));
    }
  }

  const Interface& inner_;
};

}  // namespace

void installVariableHooks() {
  // Leaked: tensors are asked while static objects end.
  static const auto* const ours = new WatchedHooks(*at::impl::GetVariableHooks());
  at::impl::SetVariableHooks(const_cast<WatchedHooks*>(ours));
}

const at::Tensor* takeTensorToSave() noexcept {
  const TensorBase* const tensor = std::exchange(asked(), {}).leaf;
  return static_cast<const at::Tensor*>(tensor);
}

}  // namespace ebbtide::plugin
