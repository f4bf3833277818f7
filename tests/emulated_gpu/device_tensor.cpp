#include "device_tensor.hpp"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/cuda/CUDAGeneratorImpl.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAStream.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>

namespace emulated_gpu {

namespace {

c10::DispatchKeySet observers() {
  using c10::DispatchKey;
  return c10::autograd_dispatch_keyset_with_ADInplaceOrView | c10::autocast_dispatch_keyset |
         c10::DispatchKeySet({DispatchKey::Python, DispatchKey::PythonTLSSnapshot,
                              DispatchKey::PythonDispatcher, DispatchKey::Functionalize,
                              DispatchKey::FuncTorchDynamicLayerFrontMode,
                              DispatchKey::FuncTorchDynamicLayerBackMode});
}

struct Task {
  const char* name;
  std::function<void()> run;
};

void runTask(void* data) {
  const Task& task = *static_cast<Task*>(data);
  try {
    const InKernel scope;
    task.run();
  } catch (const std::exception& error) {
    std::fprintf(stderr, "emulated GPU: %s: %s\n", task.name, error.what());
    std::abort();
  }
}

}  // namespace

InKernel::InKernel() : keys_(c10::default_included_set, observers()) {}

DeviceTensor::DeviceTensor(const at::Tensor& tensor) : defined_(tensor.defined()) {
  if (!defined_) return;
  on_device_ = tensor.is_cuda();
  if (!on_device_) {
    host_ = tensor.is_meta() ? tensor : tensor.clone();
    return;
  }
  sizes_ = tensor.sizes().vec();
  strides_ = tensor.strides().vec();
  type_ = tensor.scalar_type();
  auto* const storage = static_cast<char*>(tensor.storage().mutable_data());
  const auto offset = tensor.storage_offset() * static_cast<std::int64_t>(tensor.element_size());
  if (storage != nullptr) data_ = storage + offset;
}

at::Tensor DeviceTensor::onHost() const {
  if (!defined_) return {};
  if (!on_device_) return host_;
  const auto options = at::TensorOptions().dtype(type_);
  if (data_ == nullptr) return at::empty_strided(sizes_, strides_, options);
  return at::from_blob(data_, sizes_, strides_, options);
}

at::Tensor DeviceTensor::onMeta() const {
  if (!defined_) return {};
  if (on_device_) {
    const auto options = at::TensorOptions().dtype(type_).device(at::kMeta);
    return at::empty_strided(sizes_, strides_, options);
  }
  if (host_.dim() == 0) return host_;  // a number
  return at::empty_strided(host_.sizes(), host_.strides(), host_.options().device(at::kMeta));
}

emulated_gpu_access DeviceTensor::access(bool writes) const {
  if (!on_device_ || data_ == nullptr) return {nullptr, 0, writes ? 1 : 0};
  std::int64_t last = 0;
  for (std::size_t i = 0; i < sizes_.size(); ++i) {
    if (sizes_[i] == 0) return {nullptr, 0, writes ? 1 : 0};
    last += (sizes_[i] - 1) * strides_[i];
  }
  const auto element = static_cast<std::size_t>(c10::elementSize(type_));
  return {data_, (static_cast<std::size_t>(last) + 1) * element, writes ? 1 : 0};
}

c10::IValue mapTensors(const c10::IValue& value,
                       const std::function<at::Tensor(const at::Tensor&)>& replace) {
  if (value.isTensor()) return replace(value.toTensor());
  if (value.isTensorList()) {
    c10::List<at::Tensor> result;
    for (const at::Tensor& each : value.toTensorList()) result.push_back(replace(each));
    return result;
  }
  if (!value.isList()) return value;
  const auto& all = value.toListRef();
  if (std::none_of(all.begin(), all.end(), [](const auto& each) { return each.isTensor(); })) {
    return value;
  }
  c10::List<std::optional<at::Tensor>> result;
  for (const c10::IValue& each : all) {
    result.push_back(each.isNone() ? std::nullopt
                                   : std::optional<at::Tensor>(replace(each.toTensor())));
  }
  return result;
}

// Four numbers a thread and turn, as CUDA's distributions take them.
Draws Draws::take(const std::optional<at::Generator>& given, std::int64_t numbers) {
  constexpr std::int64_t kThreads = 256, kBlocks = 132 * 8;
  const std::int64_t blocks =
      std::clamp<std::int64_t>((numbers + kThreads - 1) / kThreads, 1, kBlocks);
  const std::int64_t turns = (std::max<std::int64_t>(numbers, 1) - 1) / (kThreads * blocks * 4) + 1;
  auto* const generator = at::get_generator_or_default<at::CUDAGeneratorImpl>(
      given, at::cuda::detail::getDefaultCUDAGenerator());
  const std::lock_guard lock(generator->mutex_);
  return Draws(generator->philox_cuda_state(static_cast<std::uint64_t>(turns) * 4));
}

std::int64_t Draws::seed() const {
  return state_.captured_ ? *state_.seed_.ptr : static_cast<std::int64_t>(state_.seed_.val);
}

std::int64_t Draws::offset() const {
  if (!state_.captured_) return static_cast<std::int64_t>(state_.offset_.val);
  return *state_.offset_.ptr + static_cast<std::int64_t>(state_.offset_intragraph_);
}

at::Generator Draws::generatorOf(std::int64_t seed, std::int64_t offset) {
  std::uint64_t x =
      static_cast<std::uint64_t>(seed) * 0x9e3779b97f4a7c15ULL + static_cast<std::uint64_t>(offset);
  x ^= x >> 29;
  x *= 0xbf58476d1ce4e5b9ULL;
  return at::detail::createCPUGenerator(x ^ (x >> 32));
}

cudaStream_t currentStream() {
  return c10::cuda::getCurrentCUDAStream().stream();
}
bool capturing() {
  return emulated_gpu_capturing(currentStream()) != 0;
}

void launch(const char* name, std::function<void()> run, const std::vector<DeviceTensor>& reads,
            const std::vector<DeviceTensor>& writes) {
  std::vector<emulated_gpu_access> accesses;
  for (const DeviceTensor& each : reads) accesses.push_back(each.access(false));
  for (const DeviceTensor& each : writes) accesses.push_back(each.access(true));
  std::erase_if(accesses, [](const auto& each) { return each.bytes == 0; });
  C10_CUDA_CHECK(emulated_gpu_enqueue(
      currentStream(), &runTask, [](void* data) { delete static_cast<Task*>(data); },
      new Task{name, std::move(run)}, accesses.data(), accesses.size()));
}

}  // namespace emulated_gpu
