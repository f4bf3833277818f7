// Entry of the torch-including library. Includes torch. Called once by the loader after it found
// the right torch.
#include <ATen/Version.h>

#include <exception>
#include <regex>
#include <string>
#include <utility>

#include "base/message_table.hpp"
#include "base/own_folder.hpp"
#include "base/variables.hpp"
#include "control/session_control.hpp"
#include "device/gpu_presence.hpp"
#include "hooks/cpu_allocator.hpp"
#include "hooks/cuda_side.hpp"
#include "hooks/hooked_tensor.hpp"
#include "hooks/recorder.hpp"
#include "nccl/nccl_side.hpp"
#include "record/replay_errors.hpp"
#include "runtime/run/early_end.hpp"
#include "runtime/session.hpp"
#include "version.hpp"

namespace {

// In what PyTorch says of itself: how it was built, and the libraries that it found.
std::string versionIn(const std::string& build) {
  std::smatch match;
  return std::regex_search(build, match, std::regex("TORCH_VERSION=([0-9.]+)")) ? match[1].str()
                                                                                : std::string();
}

// Where there is a GPU the budget is the GPUs'; the CPU's memory is measured then. Returns what is
// wrong; empty for nothing. Without a GPU a torch that could use one gets our allocator too, which
// nothing is asked of.
std::string installForGpus(ebbtide::plugin::Config& config) {
  using namespace ebbtide::plugin;
  const bool gpu = gpuVisible();
  auto [side, problem] = installCudaSide(gpu ? config.budget.text : "");
  if (!gpu) return "";
  // Which entry is the rank's may be learnt later.
  const bool may_have = config.budget.by_rank && !config.isTold() && config.budgetNeedsPlace();
  const bool has = config.budget.bytes || config.budget.form.isOfSteps() || config.budget.by_stage;
  if (side == CudaSide::kInstalled && (has || may_have)) {
    config.budget.is_of_gpus = true;
    config.budget.gpu_text = config.budget.text;
    config.budget.bytes.reset();
    if (offerGpus(/*budget=*/true)) {
      offerToNccl(ownFolder());
    } else if (config.budget.by_stage) {
      problem =
          "EBBTIDE_BUDGET names stages, which this build does not tell apart on a GPU; name "
          "their ranks";
    }
  } else if (side == CudaSide::kInstalled && offerGpus(/*budget=*/false)) {
    offerToNccl(ownFolder());  // measured, if they are what is trained; a budget may be asked for
  }
  return std::move(problem);
}

// torch reads the first of the two that is set.
void sayIdleSettings(const ebbtide::plugin::Session& session) {
  using namespace ebbtide::plugin;
  for (const char* const name : {"PYTORCH_ALLOC_CONF", "PYTORCH_CUDA_ALLOC_CONF"}) {
    const std::string text = variable(name);
    if (text.empty()) continue;
    for (const std::string& setting : idleAllocatorSettings(text)) {
      session.lines().debug(std::string(name) + ": " + setting +
                            " has no effect, Ebbtide's allocator takes the place of PyTorch's");
    }
    return;
  }
}

}  // namespace

// nullptr on success, else one sentence that lives until the next call.
extern "C" __attribute__((visibility("default"))) const char* ebbtide_torch_start() {
  static std::string message;
  try {
    using namespace ebbtide::plugin;
    if (Session::current() != nullptr) return nullptr;
    const std::string version = versionIn(at::show_config());
    if (!version.starts_with(std::string(kBuiltForTorch) + ".")) {
      message = "built for torch " + std::string(kBuiltForTorch) + ", but this process has torch " +
                (version.empty() ? "of an unknown version" : version);
      message = withCode(message);
      return message.c_str();
    }
    Config config = configFromEnvironment();
    if (config.own_allocator) {
      message = installForGpus(config);
      if (!message.empty()) return message.c_str();
    }
    Session::start(std::move(config), version, &SessionControl::makeFor);
    if (Session::current()->config().own_allocator &&
        !installCpuAllocator(Session::current()->trained().host())) {
      Session::current()->lines().warn(
          "this torch has another standard allocator than is known here: what torch.UntypedStorage "
          "and copy.deepcopy allocate is not counted");
    }
    if (Session::current()->config().budget.is_of_gpus) sayIdleSettings(*Session::current());
    if (const auto& end = Session::current()->config().end_after) EarlyEnd::announce(end->folder);
    installRecorder();
    return nullptr;
  } catch (const std::exception& error) {
    message = ebbtide::plugin::withCode(error.what());
    return message.c_str();
  }
}

// What ebbtide/step.h, ebbtide.step() and ebbtide.stage() look for: this library is loaded for the
// whole process.
extern "C" __attribute__((visibility("default"))) void ebbtide_step() {
  ebbtide::plugin::hintThreadStep();
}

extern "C" __attribute__((visibility("default"))) void ebbtide_stage(int stage, int microbatch) {
  ebbtide::plugin::hintThreadStage(stage, microbatch);
}

// The code object of torch.utils.checkpoint's pack hook, of an interpreter.
extern "C" __attribute__((visibility("default"))) void ebbtide_checkpoints_code(const void* code) {
  ebbtide::plugin::setCheckpointsCode(code);
}

// How an interpreter ends in mid-program, for EBBTIDE_FIT.
extern "C" __attribute__((visibility("default"))) void ebbtide_leave_by(void (*leave)()) {
  ebbtide::plugin::EarlyEnd::leaveBy(leave);
}

extern "C" __attribute__((visibility("default"))) void ebbtide_torch_finish() {
  using namespace ebbtide::plugin;
  if (Session::current() == nullptr || RunLife::inChild()) return;
  try {
    endThreadStep();
    if (const auto over = gpuOverrun())
      Session::current()->sayExceededUntrained(over->budget_bytes, over->peak_bytes);
    Session::current()->shutdown();
  } catch (const std::exception& error) {
    Session::current()->drops().disable(messageOf(error));
  }
}
