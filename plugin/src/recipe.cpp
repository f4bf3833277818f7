#include "recipe.hpp"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/autocast_mode.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <torch/csrc/autograd/grad_mode.h>

#include <map>
#include <mutex>

namespace ebbtide::plugin {
namespace {

// Puts the generator back as it was when the scope ends, also after an exception.
class RandomStateScope {
 public:
  RandomStateScope(const at::Generator& generator, const at::Tensor& state)
      : generator_(generator) {
    if (!state.defined()) return;
    std::lock_guard lock(generator_.mutex());
    saved_ = generator_.get_state();
    generator_.set_state(state);
  }
  ~RandomStateScope() {
    if (!saved_.defined()) return;
    std::lock_guard lock(generator_.mutex());
    generator_.set_state(saved_);
  }
  RandomStateScope(const RandomStateScope&) = delete;
  RandomStateScope& operator=(const RandomStateScope&) = delete;

 private:
  at::Generator generator_;
  at::Tensor saved_;
};

bool isTensorListLike(const c10::IValue& value) {
  return value.isTensorList() || value.isOptionalTensorList();
}

}  // namespace

TensorView TensorView::of(const at::Tensor& tensor) {
  return {tensor.sizes().vec(), tensor.strides().vec(), tensor.storage_offset(), tensor.dtype()};
}

at::Tensor TensorView::on(const c10::Storage& storage) const {
  auto tensor = at::detail::make_tensor<c10::TensorImpl>(
      c10::Storage(storage), c10::DispatchKeySet(c10::DispatchKey::CPU), dtype);
  tensor.unsafeGetTensorImpl()->set_sizes_and_strides(sizes, strides, offset);
  return tensor;
}

bool isPlain(const at::Tensor& tensor) {
  constexpr auto special = c10::DispatchKeySet(
      {c10::DispatchKey::Python, c10::DispatchKey::Conjugate, c10::DispatchKey::Negative,
       c10::DispatchKey::ZeroTensor, c10::DispatchKey::FuncTorchGradWrapper,
       c10::DispatchKey::FuncTorchBatched});
  return tensor.defined() && tensor.layout() == at::kStrided && tensor.device().is_cpu() &&
         tensor.has_storage() && !tensor.key_set().has_any(special) && !tensor.is_quantized() &&
         !tensor.is_inference() && !tensor.is_nested() &&
         !tensor.unsafeGetTensorImpl()->is_wrapped_number() &&
         !tensor.unsafeGetTensorImpl()->has_symbolic_sizes_strides() &&
         tensor.storage().nbytes() > 0;
}

void forEachTensor(c10::ArrayRef<const c10::IValue> values,
                   const std::function<void(int, int, const at::Tensor&)>& visit) {
  for (std::size_t i = 0; i < values.size(); ++i) {
    const c10::IValue& value = values[i];
    const int argument = static_cast<int>(i);
    if (value.isTensor()) {
      if (value.toTensor().defined()) visit(argument, -1, value.toTensor());
    } else if (isTensorListLike(value)) {
      int element = 0;
      for (const c10::IValue& item : value.toListRef()) {
        if (item.isTensor() && item.toTensor().defined()) visit(argument, element, item.toTensor());
        ++element;
      }
    }
  }
}

std::vector<c10::IValue> freezeArguments(c10::ArrayRef<const c10::IValue> values) {
  std::vector<c10::IValue> frozen;
  frozen.reserve(values.size());
  for (const c10::IValue& value : values) {
    if (value.isTensor()) {
      // Not plain (a wrapped number, say): kept as it is, the recorder has refused anything of
      // size.
      frozen.push_back(isPlain(value.toTensor()) ? c10::IValue(at::Tensor()) : value);
    } else if (value.isTensorList()) {
      frozen.emplace_back(std::vector<at::Tensor>(value.toTensorVector().size()));
    } else if (value.isOptionalTensorList()) {
      c10::List<std::optional<at::Tensor>> list;
      list.resize(value.toListRef().size());
      frozen.emplace_back(std::move(list));
    } else if (value.isList()) {
      frozen.push_back(value.deepcopy());
    } else {
      frozen.push_back(value);
    }
  }
  return frozen;
}

Recipe::Outputs Recipe::replay(const std::function<c10::Storage(const Input&)>& input) const {
  at::NoGradGuard no_grad;
  at::AutoDispatchBelowADInplaceOrView below_autograd;
  c10::impl::ExcludeDispatchKeyGuard no_autocast(c10::autocast_dispatch_keyset);
  torch::jit::Stack stack = arguments;
  for (c10::IValue& value : stack) {  // lists are shared by IValue copies: give the op its own
    if (value.isOptionalTensorList()) {
      value = c10::IValue(value.toOptionalTensorList().copy());
    } else if (value.isTensorList()) {
      value = c10::IValue(value.toTensorList().copy());
    }
  }
  for (const Input& reference : inputs) {
    at::Tensor tensor = reference.view.on(input(reference));
    c10::IValue& slot = stack.at(reference.argument);
    if (reference.element < 0) {
      slot = std::move(tensor);
    } else if (slot.isTensorList()) {
      slot.toTensorList().set(reference.element, std::move(tensor));
    } else {
      slot.toOptionalTensorList().set(reference.element, std::move(tensor));
    }
  }
  if (info->training_argument >= 0 && stack.at(info->training_argument).toBool()) {
    for (int argument : info->blank_in_training)
      stack.at(argument) = c10::IValue(std::optional<at::Tensor>());
  }
  {
    RandomStateScope random(generator, random_state);
    info->handle.callBoxed(stack);
  }
  Outputs outputs;
  forEachTensor(c10::ArrayRef<const c10::IValue>(stack.data(), stack.size()),
                [&](int, int, const at::Tensor& tensor) { outputs.push_back(tensor); });
  return outputs;
}

}  // namespace ebbtide::plugin
