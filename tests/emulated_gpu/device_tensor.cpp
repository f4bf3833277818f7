#include "device_tensor.hpp"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/cuda/CUDAGeneratorImpl.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAStream.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>

#include "demand.hpp"

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
    host_ = tensor.clone();
    return;
  }
  sizes_ = tensor.sizes().vec();
  strides_ = tensor.strides().vec();
  type_ = tensor.scalar_type();
  auto* const storage = static_cast<char*>(tensor.storage().mutable_data());
  const auto offset = tensor.storage_offset() * static_cast<std::int64_t>(tensor.element_size());
  if (storage != nullptr) data_ = storage + offset;
}

DeviceTensor DeviceTensor::ofBytes(void* begin, std::size_t bytes) {
  DeviceTensor result;
  result.data_ = begin;
  result.sizes_ = {static_cast<std::int64_t>(bytes)};
  result.strides_ = {1};
  result.type_ = at::kByte;
  result.on_device_ = result.defined_ = true;
  return result;
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
  // A number, but not the one that is kept: some Meta kernels are Python's, and who lets go of what
  // Python has seen waits for the GIL, whose holder may wait for this task.
  if (host_.dim() == 0) return host_.clone();
  return at::empty_strided(host_.sizes(), host_.strides(), host_.options().device(at::kMeta));
}

std::size_t DeviceTensor::spannedBytes() const {
  if (!on_device_ || data_ == nullptr) return 0;
  std::int64_t last = 0;
  for (std::size_t i = 0; i < sizes_.size(); ++i) {
    if (sizes_[i] == 0) return 0;
    last += (sizes_[i] - 1) * strides_[i];
  }
  return (static_cast<std::size_t>(last) + 1) * c10::elementSize(type_);
}

std::size_t DeviceTensor::bytes() const {
  if (!on_device_ || data_ == nullptr) return 0;
  std::int64_t numbers = 1;
  for (std::size_t i = 0; i < sizes_.size(); ++i) {
    if (strides_[i] != 0 || sizes_[i] == 0) numbers *= sizes_[i];
  }
  return static_cast<std::size_t>(numbers) * c10::elementSize(type_);
}

std::vector<emulated_gpu_access> DeviceTensor::accesses(bool writes) const {
  if (spannedBytes() == 0) return {};
  std::vector<std::pair<std::size_t, std::size_t>> dims;  // bytes apart, how many
  for (std::size_t i = 0; i < sizes_.size(); ++i) {
    const auto apart = static_cast<std::size_t>(strides_[i]) * c10::elementSize(type_);
    if (sizes_[i] > 1 && apart > 0) dims.emplace_back(apart, sizes_[i]);
  }
  std::sort(dims.begin(), dims.end());
  emulated_gpu_access row{data_, c10::elementSize(type_), writes ? 1 : 0, 1, 0};
  std::vector<emulated_gpu_access> result;
  std::vector<std::size_t> begins{0};  // of rows of rows
  for (const auto& [apart, count] : dims) {
    if (row.rows == 1 && apart <= row.bytes) {
      row.bytes += (count - 1) * apart;
    } else if (row.rows == 1) {
      row.rows = count;
      row.pitch = apart;
    } else if (apart == row.rows * row.pitch) {
      row.rows *= count;
    } else {
      const std::size_t before = begins.size();
      for (std::size_t i = before; i < before * count; ++i) {
        begins.push_back(begins[i % before] + i / before * apart);
      }
    }
  }
  for (const std::size_t begin : begins) {
    result.push_back(row);
    result.back().begin = static_cast<const char*>(data_) + begin;
  }
  return result;
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

namespace {

// None where nobody looks at the order.
std::vector<emulated_gpu_access> accessesOf(const std::vector<DeviceTensor>& reads,
                                            const std::vector<DeviceTensor>& writes) {
  std::vector<emulated_gpu_access> result;
  if (emulated_gpu_order() == 0) return result;
  const auto add = [&](const std::vector<DeviceTensor>& tensors, bool written) {
    for (const DeviceTensor& each : tensors) {
      const auto accesses = each.accesses(written);
      result.insert(result.end(), accesses.begin(), accesses.end());
    }
  };
  add(reads, false);
  add(writes, true);
  return result;
}

}  // namespace

void launch(const char* name, std::function<void()> run, const std::vector<DeviceTensor>& reads,
            const std::vector<DeviceTensor>& writes, const DeviceTensor& workspace,
            emulated_gpu_demand demand) {
  auto accesses = accessesOf(reads, writes);
  for (const auto& each : accessesOf({}, {workspace})) accesses.push_back(each);
  if (demand.bytes == 0) addBytes(demand, reads, writes);
  C10_CUDA_CHECK(emulated_gpu_enqueue(
      currentStream(), name, &runTask, [](void* data) { delete static_cast<Task*>(data); },
      new Task{name, std::move(run)}, &demand, accesses.data(), accesses.size()));
}

void tellOrder(const char* name, const std::vector<DeviceTensor>& reads,
               const std::vector<DeviceTensor>& writes) {
  const auto accesses = accessesOf(reads, writes);
  if (!accesses.empty()) {
    emulated_gpu_ran(currentStream(), name, accesses.data(), accesses.size());
  }
}

}  // namespace emulated_gpu
