// Which operators get host code, and when: as soon as the first context is there.
#include <c10/cuda/CUDAGuard.h>
#include <c10/util/Exception.h>

#include <set>

#include "device_tensor.hpp"
#include "operators.hpp"

namespace emulated_gpu {
namespace {

// They only look at tensors, or ask torch's allocator, or the runtime; these are real.
const std::set<std::string>& real() {
  static const std::set<std::string> names = {
      "aten::empty",
      "aten::empty_strided",
      "aten::as_strided",
      "aten::view",
      "aten::_reshape_alias",
      "aten::unfold",
      "aten::set_",
      "aten::resize_",
      "aten::_local_scalar_dense",
      "aten::record_stream",
      "aten::_pin_memory",
      "aten::is_pinned",
      "aten::is_set_to",
      "aten::_efficientzerotensor",
      "aten::alias",
      "aten::_resize_output_",
      "aten::unsafe_split",
      "aten::split",
      "aten::_nested_view_from_buffer",
      "aten::_fused_sdp_choice",
  };
  return names;
}

bool isView(const c10::FunctionSchema& schema) {
  for (const auto& result : schema.returns()) {
    if (result.alias_info() != nullptr && !result.alias_info()->isWrite()) return true;
  }
  return false;
}

bool hasKernel(const c10::OperatorHandle& op) {
  return op.hasKernelForDispatchKey(c10::DispatchKey::CUDA) && !looksOnly(op);
}

struct Quiet final : c10::WarningHandler {
  void process(const c10::Warning&) override {}
};

}  // namespace

bool looksOnly(const c10::OperatorHandle& op) {
  return real().contains(op.schema().name()) || isView(op.schema());
}

void Registry::addKernel(const c10::OperatorName& name, c10::KernelFunction kernel) {
  handles_.push_back(c10::Dispatcher::singleton().registerImpl(
      name, c10::DispatchKey::CUDA, std::move(kernel), std::nullopt, nullptr, "emulated GPU"));
}

}  // namespace emulated_gpu

extern "C" __attribute__((visibility("default"))) void emulated_gpu_install() {
  using namespace emulated_gpu;
  Quiet quiet;  // that a kernel is replaced is what we want
  const c10::WarningUtils::WarningHandlerGuard silent(&quiet);
  auto& dispatcher = c10::Dispatcher::singleton();
  auto* const registry = new Registry;  // as long as the process lives
  for (const auto& name : dispatcher.getAllOpNames()) {
    if (!name.name.starts_with("aten::")) continue;
    const auto op = dispatcher.findOp(name);
    if (!op || !op->hasSchema() || !hasKernel(*op)) continue;
    registry->addKernel(name, c10::KernelFunction::makeFromBoxedFunction<&runOnStream>());
  }
  addCopiesAndDropout(*registry);
  addAttention(*registry);
  addCudnn(*registry);
  addRecurrent(*registry);
  watchHostAccesses();
}
