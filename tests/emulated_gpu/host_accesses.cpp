// Pinned memory that torch's operators read or write on the CPU, while a task may as well: told to
// the order checker where they are called.
#include <ATen/record_function.h>

#include <set>

#include "device_tensor.hpp"
#include "operators.hpp"

namespace emulated_gpu {
namespace {

bool touchesOnHost(const c10::OperatorHandle& op) {
  static const std::set<std::string> others = {"aten::copy_", "aten::_local_scalar_dense"};
  const std::string& name = op.schema().name();
  return others.contains(name) ||
         (op.hasKernelForDispatchKey(c10::DispatchKey::CPU) && !looksOnly(op));
}

// From the first byte to the last.
std::size_t spannedBytes(const at::Tensor& tensor) {
  if (tensor.numel() == 0) return 0;
  std::int64_t last = 0;
  for (std::int64_t i = 0; i < tensor.dim(); ++i) last += (tensor.size(i) - 1) * tensor.stride(i);
  return (static_cast<std::size_t>(last) + 1) * tensor.element_size();
}

std::unique_ptr<at::ObserverContext> tell(const at::RecordFunction& function) {
  const auto name = function.operator_name();
  const auto op = name ? c10::Dispatcher::singleton().findSchema(*name) : std::nullopt;
  if (!op || !touchesOnHost(*op)) return nullptr;
  struct Touched {
    at::Tensor tensor;
    bool written = false;
  };
  std::vector<Touched> all;
  const auto& formal = op->schema().arguments();
  const auto inputs = function.inputs();
  for (std::size_t i = 0; i < std::min(inputs.size(), formal.size()); ++i) {
    const auto* const alias = formal[i].alias_info();
    const bool written = alias != nullptr && alias->isWrite();
    mapTensors(inputs[i], [&](const at::Tensor& tensor) {
      if (tensor.defined()) all.push_back({tensor, written});
      return tensor;
    });
  }
  for (const Touched& each : all) {
    const bool on_host = each.tensor.is_cpu() && each.tensor.layout() == at::kStrided;
    if (!on_host) return nullptr;  // the runtime copies it, or a task reads it
  }
  for (const Touched& each : all) {
    const std::size_t bytes = spannedBytes(each.tensor);
    if (bytes == 0 || !each.tensor.has_storage()) continue;
    emulated_gpu_host_access(name->name.c_str(), each.tensor.const_data_ptr(), bytes,
                             each.written ? 1 : 0);
  }
  return nullptr;
}

}  // namespace

void watchHostAccesses() {
  if (emulated_gpu_order() == 0) return;
  at::addGlobalCallback(at::RecordFunctionCallback(&tell).needsInputs(true).scopes(
      {at::RecordScope::FUNCTION, at::RecordScope::BACKWARD_FUNCTION}));
}

}  // namespace emulated_gpu
