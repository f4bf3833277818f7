#include "hooks/thread_state.hpp"

#include <c10/core/impl/LocalDispatchKeySet.h>
#include <c10/core/impl/TorchDispatchModeTLS.h>
#include <torch/csrc/autograd/graph_task.h>

#include "base/thread_scopes.hpp"
#include "device/torch/training_device.hpp"
#include "runtime/session.hpp"

namespace ebbtide::plugin {

ThreadState& threadState() {
  thread_local ThreadState state;
  return state;
}

bool inBackward() {
  return torch::autograd::get_current_graph_task_id() >= 0;
}

bool passThrough() {
  Session* const session = Session::current();
  return session == nullptr || session->drops().disabled() || QuietScope::active() ||
         RunLife::inChild();
}

bool captures() {
  return trainingDevice().lanes.capture() != DeviceLanes::Capture::kNone;
}

bool underTransform() {
  return c10::impl::TorchDispatchModeTLS::any_modes_set() ||
         c10::impl::tls_is_dispatch_key_included(c10::DispatchKey::FuncTorchDynamicLayerFrontMode);
}

}  // namespace ebbtide::plugin
