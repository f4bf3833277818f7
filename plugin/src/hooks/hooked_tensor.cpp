#include "hooks/hooked_tensor.hpp"

#include <ATen/PythonTorchFunctionTLS.h>
#include <ATen/SavedTensorHooks.h>
#include <dlfcn.h>
#include <torch/csrc/autograd/engine.h>
#include <torch/csrc/autograd/graph_task.h>

#include <atomic>
#include <memory>
#include <utility>
#include <vector>

#include "ebbtide/scheduler/trace.hpp"
#include "hooks/saved_tensor.hpp"
#include "hooks/stand_in.hpp"
#include "hooks/unpack_scope.hpp"

namespace ebbtide::plugin {
namespace {

// Python's own functions, which are there in an interpreter alone. None of these runs bytecode: a
// signal's handler must not run, and fail, in a call of ours.
struct Python {
  int (*ensure)() = nullptr;
  void (*release)(int) = nullptr;
  void* (*type_of)(void*) = nullptr;                 // a new reference
  void* (*code_of)(void*) = nullptr;                 // of a function; borrowed
  void* (*attribute)(void*, const char*) = nullptr;  // a new reference; null, and an error, if none
  void (*clear_error)() = nullptr;
  void (*let_go)(void*) = nullptr;
  const void* function_type = nullptr;

  static Python find() {
    Python found;
    const auto look = [](const char* name) { return ::dlsym(RTLD_DEFAULT, name); };
    found.ensure = reinterpret_cast<int (*)()>(look("PyGILState_Ensure"));
    found.release = reinterpret_cast<void (*)(int)>(look("PyGILState_Release"));
    found.type_of = reinterpret_cast<void* (*)(void*)>(look("PyObject_Type"));
    found.code_of = reinterpret_cast<void* (*)(void*)>(look("PyFunction_GetCode"));
    found.attribute =
        reinterpret_cast<void* (*)(void*, const char*)>(look("PyObject_GetAttrString"));
    found.clear_error = reinterpret_cast<void (*)()>(look("PyErr_Clear"));
    found.let_go = reinterpret_cast<void (*)(void*)>(look("Py_DecRef"));
    found.function_type = look("PyFunction_Type");
    return found;
  }
  bool isWhole() const {
    return ensure != nullptr && release != nullptr && type_of != nullptr && code_of != nullptr &&
           attribute != nullptr && clear_error != nullptr && let_go != nullptr &&
           function_type != nullptr;
  }
};

std::atomic<const void*> checkpoints_code{nullptr};

bool isCheckpoints(void* hook, const void* code) {
  static const Python python = Python::find();
  if (!python.isWhole()) return false;
  const auto is_function = [](void* callable) {
    void* const type = python.type_of(callable);
    python.let_go(type);
    return type == python.function_type;
  };
  const int state = python.ensure();
  bool is_one = false;
  if (is_function(hook)) {  // to ask another callable may run code of the program's
    is_one = python.code_of(hook) == code;
    // Since torch 2.15 the hook is a wrapper of torch._dynamo.disable().
    void* const wrapped = is_one ? nullptr : python.attribute(hook, "_torchdynamo_orig_callable");
    if (wrapped != nullptr) {
      is_one = is_function(wrapped) && python.code_of(wrapped) == code;
      python.let_go(wrapped);
    } else if (!is_one) {
      python.clear_error();
    }
  }
  python.release(state);
  return is_one;
}

// The innermost pair, which is about to be called.
bool packsForACheckpoint() {
  const void* const code = checkpoints_code.load(std::memory_order_acquire);
  const auto& stack = at::SavedTensorDefaultHooks::get_tls_state().stack;
  if (code == nullptr || stack.empty()) return false;
  const c10::SafePyObject& pack = stack.top().first;
  return isCheckpoints(pack.ptr(&pack.pyinterpreter()), code);
}

// A mode sees what the hook asks of a stand-in, and might read it.
bool isWatched() {
  return underTransform() || at::impl::torch_function_mode_enabled();
}

bool mayStandIn(const at::Tensor& tensor) {
  if (!UnpackScope::isOfPresentNode() || passThrough() || captures() || isWatched()) return false;
  const ThreadState& state = threadState();
  const std::shared_ptr<StepRun>& run = state.steps.run();
  if (run == nullptr || !run->options().hooks || state.active != scheduler::kNone) return false;
  return SavedTensor::isOfAStep(tensor) && packsForACheckpoint();
}

// It frees the stand-ins when the pass is over, or fails.
struct EndsWithThePass {
  EndsWithThePass() = default;
  ~EndsWithThePass() { letGoOfReadStandIns(); }
  EndsWithThePass(const EndsWithThePass&) = delete;
  EndsWithThePass& operator=(const EndsWithThePass&) = delete;
};

// The frame lets go of a stand-in as it gives it. But its use is that of a saved tensor: the node
// has the contents until it ends.
void keepUntilTheNodeEnds(at::Tensor&& stand_in) {
  if (torch::autograd::get_current_graph_task_id() < 0) return;
  std::vector<at::Tensor>& kept = threadState().read_stand_ins;
  if (kept.empty()) {
    const auto ends = std::make_shared<EndsWithThePass>();
    torch::autograd::Engine::get_default_engine().queue_callback([ends] { letGoOfReadStandIns(); });
  }
  kept.push_back(std::move(stand_in));
}

}  // namespace

// Freeing one may run code of the program's.
void letGoOfReadStandIns() {
  const std::vector<at::Tensor> ended = std::exchange(threadState().read_stand_ins, {});
}

void setCheckpointsCode(const void* code) noexcept {
  checkpoints_code.store(code, std::memory_order_release);
}

// The hook may throw to end the region early: by then its frame keeps the stand-in.
void HookedTensor::call_pack_hook(const at::Tensor& tensor) {
  if (!mayStandIn(tensor)) return users_->call_pack_hook(tensor);
  stands_in_ = true;
  const at::Tensor stand_in = standInFor(tensor);
  // What the region has made by now is a value, and no part of what the node unpacks.
  threadState().steps.noteBackwardNode(scheduler::kCheckpointNode);
  users_->call_pack_hook(stand_in);
}

at::Tensor HookedTensor::call_unpack_hook() {
  at::Tensor given;
  {
    const UnpackScope scope;
    given = users_->call_unpack_hook();
  }
  at::Tensor contents = contentsOf(given);
  if (!contents.defined()) return given;
  keepUntilTheNodeEnds(std::move(given));
  return contents;
}

}  // namespace ebbtide::plugin
