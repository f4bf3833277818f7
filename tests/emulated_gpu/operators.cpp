// Each aten operator that has a kernel for CUDA runs its CPU kernel over the same bytes, when the
// stream comes to it. Results are allocated at once by torch's CUDA allocator, of the sizes that
// the Meta kernel tells; where there is none, or numbers are asked for, the stream is waited for.
#include "operators.hpp"

#include <ATen/core/dispatch/Dispatcher.h>
#include <c10/cuda/CUDAFunctions.h>
#include <c10/cuda/CUDAGuard.h>

#include <cstdio>
#include <cstdlib>
#include <map>
#include <memory>
#include <string>
#include <utility>

#include "demand.hpp"
#include "device_tensor.hpp"
#include "unsteady.hpp"

namespace emulated_gpu {
namespace {

using c10::DispatchKey;
using c10::DispatchKeySet;
using c10::IValue;
using torch::jit::Stack;

// A call of an op, its tensors as a kernel has them.
class Call {
 public:
  Call(const c10::OperatorHandle& op, Stack arguments);

  c10::Device device() const;
  // Results as the Meta kernel tells them; none where nobody knows before it has run.
  std::optional<Stack> foretold() const;
  Stack allocated(const Stack& told);  // and the arguments that the op gives back
  void enqueue();
  Stack now();  // after a wait for the stream
  Stack unknown();

 private:
  struct Fresh {  // a result's tensor
    std::size_t result = 0;
    DeviceTensor tensor;
  };
  // What the task keeps.
  struct Later {
    c10::OperatorHandle op;
    Stack arguments = {};  // without tensors
    std::vector<DeviceTensor> tensors = {};
    std::vector<Fresh> fresh = {};
    std::optional<Draws> draws = {};
    int generator_at = -1;
    bool no_order = false;
    std::uint64_t product = 0;  // what a product's bits depend on

    Stack onHost() const;
    void run() const;
  };

  std::string fullName() const;
  int argumentOf(std::size_t result) const;  // that it is an alias of, or -1
  bool givesTensorsOnly() const;
  void resizeArgument(int argument, const IValue& told);
  void takeDraws();
  struct Touched {
    std::vector<DeviceTensor> reads = {}, writes = {};
  };
  Touched touched() const;  // of the arguments
  std::size_t firstTensorOf(int argument) const;

  Stack arguments_;
  std::vector<std::vector<at::Tensor>> tensors_;  // of each argument
  Later later_;
};

void eachTensor(const IValue& value, const std::function<void(const at::Tensor&)>& see) {
  mapTensors(value, [&](const at::Tensor& tensor) {
    see(tensor);
    return tensor;
  });
}

Call::Call(const c10::OperatorHandle& op, Stack arguments)
    : arguments_(std::move(arguments)), tensors_(arguments_.size()), later_{op} {
  const InKernel scope;
  const auto& formal = op.schema().arguments();
  for (std::size_t i = 0; i < arguments_.size(); ++i) {
    eachTensor(arguments_[i], [&](const at::Tensor& tensor) {
      tensors_[i].push_back(tensor);
      later_.tensors.emplace_back(tensor);
    });
    IValue kept = mapTensors(arguments_[i], [](const at::Tensor&) { return at::Tensor(); });
    if (kept.isDevice()) kept = c10::Device(c10::kCPU);
    if (formal[i].name() == "generator") {
      later_.generator_at = static_cast<int>(i);
      kept = IValue();
    }
    later_.arguments.push_back(std::move(kept));
  }
}

std::string Call::fullName() const {
  const auto& name = later_.op.operator_name();
  return name.overload_name.empty() ? name.name : name.name + "." + name.overload_name;
}

c10::Device Call::device() const {
  for (const auto& of_argument : tensors_) {
    for (const at::Tensor& tensor : of_argument) {
      if (tensor.defined() && tensor.is_cuda()) return tensor.device();
    }
  }
  for (const IValue& argument : arguments_) {
    if (argument.isDevice() && argument.toDevice().has_index()) return argument.toDevice();
  }
  return {c10::kCUDA, c10::cuda::current_device()};
}

bool Call::givesTensorsOnly() const {
  for (const auto& result : later_.op.schema().returns()) {
    const auto& type = result.type();
    const bool list = type->kind() == c10::TypeKind::ListType &&
                      type->containedType(0)->kind() == c10::TypeKind::TensorType;
    if (type->kind() != c10::TypeKind::TensorType && !list) return false;
  }
  return true;
}

std::optional<Stack> Call::foretold() const {
  const auto& op = later_.op;
  const bool known =
      op.hasKernelForDispatchKey(DispatchKey::Meta) ||
      op.hasKernelForDispatchKey(DispatchKey::CompositeExplicitAutograd) ||
      op.hasKernelForDispatchKey(DispatchKey::CompositeExplicitAutogradNonFunctional);
  if (!known || !givesTensorsOnly()) return std::nullopt;
  const InKernel scope;
  Stack stack;
  std::size_t next = 0;
  for (const IValue& argument : later_.arguments) {
    stack.push_back(
        mapTensors(argument, [&](const at::Tensor&) { return later_.tensors[next++].onMeta(); }));
    if (argument.isDevice()) stack.back() = c10::Device(c10::kMeta);
  }
  try {
    op.redispatchBoxed(DispatchKeySet(DispatchKey::Meta), &stack);
  } catch (const std::exception& error) {
    if (std::getenv("EMULATED_GPU_LOG") != nullptr) {
      std::fprintf(stderr, "emulated GPU: no sizes of %s: %.200s\n", fullName().c_str(),
                   error.what());
    }
    return std::nullopt;
  }
  return stack;
}

int Call::argumentOf(std::size_t result) const {
  const auto& schema = later_.op.schema();
  const auto* const alias = schema.returns()[result].alias_info();
  if (alias == nullptr) return -1;
  for (std::size_t i = 0; i < schema.arguments().size(); ++i) {
    const auto* const other = schema.arguments()[i].alias_info();
    if (other != nullptr && *other == *alias) return static_cast<int>(i);
  }
  return -1;
}

std::size_t Call::firstTensorOf(int argument) const {
  std::size_t index = 0;
  for (int i = 0; i < argument; ++i) index += tensors_[static_cast<std::size_t>(i)].size();
  return index;
}

// An out= tensor of another size.
void Call::resizeArgument(int argument, const IValue& told) {
  const IValue& given = arguments_[static_cast<std::size_t>(argument)];
  if (!told.isTensor() || !given.isTensor() || !given.toTensor().defined()) return;
  const at::Tensor& tensor = given.toTensor();
  if (told.toTensor().sizes() == tensor.sizes()) return;
  tensor.resize_(told.toTensor().sizes());
  later_.tensors[firstTensorOf(argument)] = DeviceTensor(tensor);
}

Stack Call::allocated(const Stack& told) {
  const InKernel scope;
  const c10::Device on = device();
  Stack results;
  for (std::size_t r = 0; r < told.size(); ++r) {
    const int argument = argumentOf(r);
    if (argument >= 0) {
      resizeArgument(argument, told[r]);
      results.push_back(arguments_[static_cast<std::size_t>(argument)]);
      continue;
    }
    results.push_back(mapTensors(told[r], [&](const at::Tensor& meta) -> at::Tensor {
      at::Tensor result;
      if (meta.defined()) {
        const OutsideOfEmulator allocates;
        result = at::empty_strided(meta.sizes(), meta.strides(), meta.options().device(on));
      }
      later_.fresh.push_back({r, DeviceTensor(result)});
      return result;
    }));
  }
  return results;
}

void Call::takeDraws() {
  if (later_.generator_at < 0) return;
  std::int64_t numbers = 1;
  for (const auto& of_argument : tensors_) {
    for (const at::Tensor& tensor : of_argument) {
      if (tensor.defined()) numbers = std::max(numbers, tensor.numel());
    }
  }
  const IValue& given = arguments_[static_cast<std::size_t>(later_.generator_at)];
  later_.draws =
      Draws::take(given.isGenerator() ? std::optional(given.toGenerator()) : std::nullopt, numbers);
}

Stack Call::Later::onHost() const {
  Stack stack;
  std::size_t next = 0;
  for (const IValue& argument : arguments) {
    stack.push_back(
        mapTensors(argument, [&](const at::Tensor&) { return tensors[next++].onHost(); }));
  }
  if (draws) stack[static_cast<std::size_t>(generator_at)] = draws->generator();
  return stack;
}

void Call::Later::run() const {
  Stack stack = onHost();
  op.redispatchBoxed(DispatchKeySet(DispatchKey::CPU), &stack);
  std::vector<std::pair<std::size_t, at::Tensor>> results;
  for (std::size_t r = 0; r < stack.size(); ++r) {
    eachTensor(stack[r], [&](const at::Tensor& tensor) { results.emplace_back(r, tensor); });
  }
  const bool differs = no_order || product != 0;
  const std::uint64_t by = no_order ? nextLaunch() : product;
  if (differs && !results.empty()) disturb(results.front().second, by);
  std::size_t at = 0;
  for (const Fresh& each : fresh) {
    while (at < results.size() && results[at].first != each.result) ++at;
    const at::Tensor& result = results.at(at++).second;
    if (each.tensor.data() != nullptr && result.defined()) each.tensor.onHost().copy_(result);
  }
}

Call::Touched Call::touched() const {
  Touched result;
  const auto& formal = later_.op.schema().arguments();
  std::size_t next = 0;
  for (std::size_t i = 0; i < tensors_.size(); ++i) {
    const auto* const alias = formal[i].alias_info();
    auto& of_kind = alias != nullptr && alias->isWrite() ? result.writes : result.reads;
    for (std::size_t j = 0; j < tensors_[i].size(); ++j) of_kind.push_back(later_.tensors[next++]);
  }
  return result;
}

void Call::enqueue() {
  takeDraws();
  const std::string name = fullName();
  later_.no_order = addsInNoOrder(name);
  DeviceTensor workspace;
  if (isProduct(name)) {
    workspace = productWorkspace();
    std::uint64_t depends = workspace.spannedBytes() >> 10;
    for (const DeviceTensor& each : later_.tensors) {
      depends += reinterpret_cast<std::uintptr_t>(each.data()) % 16 != 0 ? 1 : 0;
    }
    if (unsteady()) later_.product = depends;
  }
  auto [reads, writes] = touched();
  for (const Fresh& each : later_.fresh) writes.push_back(each.tensor);
  const char* const op_name = later_.op.operator_name().name.c_str();
  const emulated_gpu_demand demand = demandOf(name, reads, writes);
  launch(
      op_name, [later = std::make_shared<Later>(std::move(later_))] { later->run(); }, reads,
      writes, workspace, demand);
}

// In mode *clock* nobody has values. Comparisons say "equal".
Stack Call::unknown() {
  if (later_.op.operator_name().name == "aten::equal") {
    emulated_gpu_drain(currentStream());
    return {true};
  }
  TORCH_CHECK(false, fullName(),
              " has results whose sizes its values decide, or that only its kernel tells: an "
              "emulated GPU in mode clock has no values. Use EMULATED_GPU_MODE=bits");
}

Stack Call::now() {
  TORCH_CHECK(!capturing(), fullName(),
              " waits for the device (emulated) while a graph is captured");
  if (emulated_gpu_clock_mode() != 0) return unknown();
  takeDraws();
  emulated_gpu_drain(currentStream());
  auto [reads, writes] = touched();
  const InKernel scope;
  Stack stack = later_.onHost();
  later_.op.redispatchBoxed(DispatchKeySet(DispatchKey::CPU), &stack);
  const c10::Device on = device();
  Stack results;
  for (std::size_t r = 0; r < stack.size(); ++r) {
    const int argument = argumentOf(r);
    if (argument >= 0) {
      const IValue& given = arguments_[static_cast<std::size_t>(argument)];
      results.push_back(given);
      if (!stack[r].isTensor() || !given.isTensor()) continue;
      const at::Tensor& result = stack[r].toTensor();
      if (result.sizes() == given.toTensor().sizes()) continue;
      given.toTensor().resize_(result.sizes());
      writes.emplace_back(given.toTensor()).onHost().copy_(result);
      continue;
    }
    results.push_back(mapTensors(stack[r], [&](const at::Tensor& result) -> at::Tensor {
      if (!result.defined()) return {};
      at::Tensor made =
          at::empty_strided(result.sizes(), result.strides(), result.options().device(on));
      if (result.numel() > 0) writes.emplace_back(made).onHost().copy_(result);
      return made;
    }));
  }
  tellOrder(later_.op.operator_name().name.c_str(), reads, writes);
  return results;
}

}  // namespace

void runOnStream(const c10::OperatorHandle& op, c10::DispatchKeySet, Stack* stack) {
  const InEmulator in_emulator;
  const auto count = static_cast<std::ptrdiff_t>(op.schema().arguments().size());
  Stack arguments(stack->end() - count, stack->end());
  stack->erase(stack->end() - count, stack->end());
  Call call(op, std::move(arguments));
  const c10::cuda::CUDAGuard guard(call.device());
  const auto told = call.foretold();
  Stack results = told ? call.allocated(*told) : call.now();
  if (told) call.enqueue();
  for (IValue& each : results) stack->push_back(std::move(each));
}

}  // namespace emulated_gpu
