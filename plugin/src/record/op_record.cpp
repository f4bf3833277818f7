#include "record/op_record.hpp"

#include <ATen/ThreadLocalState.h>
#include <ATen/autocast_mode.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <torch/csrc/autograd/grad_mode.h>

#include <cstring>
#include <limits>
#include <mutex>
#include <optional>

#include "base/message_table.hpp"
#include "base/thread_scopes.hpp"
#include "device/torch/training_device.hpp"

namespace ebbtide::plugin {
namespace {

const at::ThreadLocalState* clean_state = nullptr;  // leaked: autograd threads outlive exit

bool isTensorListLike(const c10::IValue& value) {
  return value.isTensorList() || value.isOptionalTensorList();
}

// A list of tensor lists.
bool isNested(const c10::IValue& value) {
  return value.isList() && !value.toListRef().empty() && value.toListRef()[0].isTensorList();
}

// The bytes of a view within each period of so many bytes: from `begin` to before `end`, if it has
// the same ones in all that it touches.
struct Stretch {
  std::int64_t begin = 0;
  std::int64_t end = 0;
};

std::optional<Stretch> stretchIn(const TensorView& view, std::int64_t period) {
  const auto item = static_cast<std::int64_t>(view.dtype.itemsize());
  Stretch stretch;
  stretch.begin = view.offset * item % period;
  stretch.end = stretch.begin + item;
  for (std::size_t i = 0; i < view.sizes.size(); ++i) {
    const std::int64_t stride = view.strides[i] * item;
    if (stride % period != 0) stretch.end += (view.sizes[i] - 1) * stride;
  }
  if (stretch.end > period) return std::nullopt;
  return stretch;
}

bool areApartIn(const TensorView& a, const TensorView& b, std::int64_t period) {
  const auto first = stretchIn(a, period);
  const auto second = stretchIn(b, period);
  return first && second && (first->end <= second->begin || second->end <= first->begin);
}

// Sizes of nothing need nothing.
std::size_t bytesUpToLastElement(const at::Tensor& tensor) {
  if (tensor.numel() == 0) return 0;
  std::int64_t last = tensor.storage_offset();
  for (std::int64_t i = 0; i < tensor.dim(); ++i) last += (tensor.size(i) - 1) * tensor.stride(i);
  return static_cast<std::size_t>(last + 1) * tensor.dtype().itemsize();
}

c10::DispatchKeySet denseKeysOf(c10::DeviceType type) {
  return c10::DispatchKeySet(
      c10::computeDispatchKey(std::nullopt, at::kStrided, c10::Device(type)));
}

// PyTorch's own copy asks the mode for it (TensorImpl::shallow_copy_and_detach).
class UnseenTensor final : public c10::TensorImpl {
 public:
  using c10::TensorImpl::TensorImpl;

  c10::intrusive_ptr<c10::TensorImpl> shallow_copy_and_detach(
      const c10::VariableVersion& counter, bool allow_tensor_metadata_change) const override {
    auto copy = c10::make_intrusive<c10::TensorImpl>(c10::Storage(storage()), key_set_, data_type_);
    copy_tensor_metadata(this, copy.get(), counter, allow_tensor_metadata_change);
    return copy;
  }
  c10::intrusive_ptr<c10::TensorImpl> shallow_copy_and_detach(
      c10::VariableVersion&& counter, bool allow_tensor_metadata_change) const override {
    const c10::VariableVersion same = std::move(counter);
    return shallow_copy_and_detach(same, allow_tensor_metadata_change);
  }
};

// Of the thread's ops: torch.profiler, say. A clean state would hide the replay from it.
class Watchers {
 public:
  Watchers() : callbacks_(at::get_record_function_tls_()) {
    if (!none()) profile_ = c10::ThreadLocalDebugInfo::current();
  }
  void watch() const {
    if (none()) return;
    at::set_record_function_tls_(callbacks_);
    c10::ThreadLocalDebugInfo::_forceCurrentDebugInfo(profile_);
  }

 private:
  bool none() const noexcept { return callbacks_.sorted_tls_callbacks_.empty(); }

  at::RecordFunctionTLS callbacks_;
  std::shared_ptr<c10::ThreadLocalDebugInfo> profile_;
};

}  // namespace

RandomStateScope::RandomStateScope(const at::Generator& generator, const at::Tensor& state)
    : generator_(generator) {
  std::lock_guard lock(generator_.mutex());
  const OwnMemoryScope own;
  saved_ = generator_.get_state();
  if (generator_.device().is_cuda()) {
    // To set its state tells cuDNN's dropout to begin anew. Another one takes its place instead.
    at::Generator other = generator_.clone();
    if (state.defined()) other.set_state(state);
    shared_ = generator_.graphsafe_get_state();
    generator_.graphsafe_set_state(other);
  } else if (state.defined()) {
    generator_.set_state(state);
  }
}

RandomStateScope::~RandomStateScope() {
  std::lock_guard lock(generator_.mutex());
  if (shared_.defined()) {
    generator_.graphsafe_set_state(shared_);
  } else {
    generator_.set_state(saved_);
  }
}

bool RandomStateScope::drawn() {
  std::lock_guard lock(generator_.mutex());
  const OwnMemoryScope own;
  const at::Tensor now = generator_.get_state();
  return now.nbytes() != saved_.nbytes() ||
         std::memcmp(now.const_data_ptr(), saved_.const_data_ptr(), saved_.nbytes()) != 0;
}

void rememberCleanThreadState() {
  clean_state = new at::ThreadLocalState();
}

TensorView TensorView::of(const at::Tensor& tensor) {
  return {c10::DimVector(tensor.sizes()), c10::DimVector(tensor.strides()), tensor.storage_offset(),
          tensor.dtype(), bytesUpToLastElement(tensor)};
}

ByteRange bytesOf(const at::Tensor& tensor) {
  if (tensor.numel() == 0) return {};
  return {tensor.storage_offset() * static_cast<std::int64_t>(tensor.itemsize()),
          static_cast<std::int64_t>(bytesUpToLastElement(tensor))};
}

ByteRange TensorView::bytes() const noexcept {
  if (storage_bytes == 0) return {};
  return {offset * static_cast<std::int64_t>(dtype.itemsize()),
          static_cast<std::int64_t>(storage_bytes)};
}

std::int64_t TensorView::readBytes() const noexcept {
  auto read_bytes = static_cast<std::int64_t>(dtype.itemsize());
  for (const std::int64_t size : sizes) read_bytes *= size;
  return read_bytes;
}

bool TensorView::isOf(const c10::TensorImpl& tensor) const {
  return tensor.sizes() == c10::IntArrayRef(sizes) &&
         tensor.strides() == c10::IntArrayRef(strides) && tensor.storage_offset() == offset &&
         tensor.dtype() == dtype && !tensor.is_neg() && !tensor.is_conj();
}

bool TensorView::isApartFrom(const TensorView& other) const {
  if (areApartIn(*this, other, std::numeric_limits<std::int64_t>::max())) return true;
  for (const TensorView* view : {this, &other}) {
    const auto item = static_cast<std::int64_t>(view->dtype.itemsize());
    for (const std::int64_t stride : view->strides) {
      if (stride > 0 && areApartIn(*this, other, stride * item)) return true;
    }
  }
  return false;
}

template <typename Impl>
at::Tensor TensorView::make(const c10::Storage& storage) const {
  TORCH_CHECK(storage.nbytes() >= storage_bytes,
              withCode(c10::str("ebbtide: the storage of a tensor that is still needed was resized "
                                "from at least ",
                                storage_bytes, " to ", storage.nbytes(), " bytes")));
  auto tensor = at::detail::make_tensor<Impl>(c10::Storage(storage),
                                              denseKeysOf(storage.device_type()), dtype);
  tensor.unsafeGetTensorImpl()->set_sizes_and_strides(sizes, strides, offset);
  return tensor;
}

at::Tensor TensorView::on(const c10::Storage& storage) const {
  return make<c10::TensorImpl>(storage);
}

at::Tensor TensorView::unseenOn(const c10::Storage& storage) const {
  return make<UnseenTensor>(storage);
}

namespace {

bool isDense(const at::Tensor& tensor) {
  constexpr auto special = c10::DispatchKeySet(
      {c10::DispatchKey::Python, c10::DispatchKey::Conjugate, c10::DispatchKey::Negative,
       c10::DispatchKey::ZeroTensor, c10::DispatchKey::FuncTorchGradWrapper,
       c10::DispatchKey::FuncTorchBatched});
  return tensor.defined() && tensor.layout() == at::kStrided &&
         trainingDevice().has(tensor.device()) && tensor.has_storage() &&
         !tensor.key_set().has_any(special) && !tensor.is_quantized() && !tensor.is_inference() &&
         !tensor.is_nested() && !tensor.unsafeGetTensorImpl()->is_wrapped_number() &&
         !tensor.unsafeGetTensorImpl()->has_symbolic_sizes_strides();
}

// Who resizes or fills the tensor later must not reach what is frozen.
at::Tensor frozenTensor(const at::Tensor& tensor) {
  if (isPlain(tensor)) return {};
  if (!isEmpty(tensor)) return tensor;
  return at::empty_strided(tensor.sizes(), tensor.strides(), tensor.options());
}

}  // namespace

bool isPlain(const at::Tensor& tensor) {
  return isDense(tensor) && tensor.storage().nbytes() > 0;
}

bool isEmpty(const at::Tensor& tensor) {
  return isDense(tensor) && tensor.storage().nbytes() == 0 && tensor.numel() == 0;
}

void forEachTensor(c10::ArrayRef<const c10::IValue> values,
                   c10::function_ref<void(int, int, const at::Tensor&)> visit) {
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
    } else if (isNested(value)) {
      int element = 0;
      for (const c10::IValue& list : value.toListRef()) {
        for (const c10::IValue& item : list.toListRef()) {
          if (item.isTensor() && item.toTensor().defined())
            visit(argument, element, item.toTensor());
          ++element;
        }
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
      frozen.emplace_back(frozenTensor(value.toTensor()));
    } else if (value.isTensorList()) {
      std::vector<at::Tensor> list;
      for (const at::Tensor& tensor : value.toTensorVector()) list.push_back(frozenTensor(tensor));
      frozen.emplace_back(std::move(list));
    } else if (value.isOptionalTensorList()) {
      c10::List<std::optional<at::Tensor>> list;
      for (const c10::IValue& item : value.toListRef()) {
        const bool empty = item.isTensor() && isEmpty(item.toTensor());
        list.push_back(empty ? std::optional(frozenTensor(item.toTensor())) : std::nullopt);
      }
      frozen.emplace_back(std::move(list));
    } else if (value.isList()) {
      frozen.push_back(value.deepcopy());
    } else {
      frozen.push_back(value);
    }
  }
  return frozen;
}

OpRecord::Outputs OpRecord::replay(c10::function_ref<c10::Storage(const Input&)> input) const {
  const Watchers watchers;
  const at::ThreadLocalStateGuard clean(*clean_state);
  watchers.watch();
  const GlobalStateScope global(state);
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
  at::Tensor written_over;
  for (const Input& reference : inputs) {
    const c10::Storage storage = input(reference);
    at::Tensor tensor = reference.view.on(storage);
    if (saves_what_it_writes_over && info->writes[reference.argument])
      written_over = tensor.clone();
    c10::IValue& slot = stack.at(reference.argument);
    if (reference.element < 0) {
      slot = std::move(tensor);
    } else if (slot.isTensorList()) {
      slot.toTensorList().set(reference.element, std::move(tensor));
    } else {
      slot.toOptionalTensorList().set(reference.element, std::move(tensor));
    }
  }
  if (info->updatesStatistics(c10::ArrayRef<const c10::IValue>(stack.data(), stack.size()))) {
    for (int argument : info->statistics)
      stack.at(argument) = c10::IValue(std::optional<at::Tensor>());
  }
  if (random_state.defined() && info->generator_argument >= 0) {
    // A generator of its own: other threads may draw from the shared one meanwhile.
    at::Generator own = trainingDevice().random.make();
    own.set_state(random_state);
    stack.at(info->generator_argument) = c10::IValue(std::move(own));
    info->handle.callBoxed(stack);
  } else if (random_state.defined()) {
    const RandomStateScope random(generator, random_state);
    info->handle.callBoxed(stack);
  } else {
    info->handle.callBoxed(stack);
  }
  Outputs outputs;
  forEachTensor(c10::ArrayRef<const c10::IValue>(stack.data(), stack.size()),
                [&](int, int, const at::Tensor& tensor) { outputs.push_back(tensor); });
  if (saves_what_it_writes_over) outputs.push_back(written_over);
  return outputs;
}

}  // namespace ebbtide::plugin
