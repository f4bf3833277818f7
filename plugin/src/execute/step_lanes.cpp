// A step's lane: what the executor asks the device for on the step's behalf it asks for there, and
// what the program does on another one is no part of the step.
#include "base/message_table.hpp"
#include "base/thread_scopes.hpp"
#include "execute/step_run_state.hpp"

namespace ebbtide::plugin {

// On the step's lane, whoever unpacks.
c10::Storage StepRun::restore(UseId use) {
  const RestoreScope one_at_a_time(*this);
  const QuietScope quiet;
  if (device_.lanes.capture() == DeviceLanes::Capture::kHere) return unpackCaptured(use);
  c10::Storage storage;
  bool read_elsewhere = false;
  {
    const LaneScope lane(device_.lanes, lane_);
    storage = unpack(use);
    read_elsewhere = lane.switched() && device_.blocks.isOurs(storage);
  }
  if (read_elsewhere) device_.lanes.readHere(storage);
  return storage;
}

// While a graph is captured nothing can be computed again or compared.
c10::Storage StepRun::unpackCaptured(UseId use) {
  const Locked lock(*this);
  leavePlan("backward while a graph is captured");
  const ValueId id = valueOf(use);
  c10::Storage storage = id != kNone ? values_[id].stored.storage() : c10::Storage();
  TORCH_CHECK(
      storage,
      withCode("ebbtide: a graph is captured of a backward pass whose forward pass was not, and "
               "what that saved has been dropped. Capture both, or train without EBBTIDE_BUDGET"));
  return storage;
}

// In a destructor, maybe of another thread, or while a graph is captured. What cannot be copied
// stays until the step ends.
void StepRun::finishLastEvent() noexcept try {
  if (follower_.cursor().current() == kNone ||
      device_.lanes.capture() != DeviceLanes::Capture::kNone) {
    return;
  }
  const LaneScope lane(device_.lanes, lane_);
  finishEvent();
} catch (const std::exception& error) {
  session_.debug(std::string("values stay until their step ends: ") + error.what());
}

// What the step knows of reaches another lane: that one may still read or write it when the step
// gives it up here.
void StepRun::noteOtherLane(c10::ArrayRef<const c10::IValue> inputs) {
  bool touches = false;
  forEachTensor(inputs, [&](int, int, const at::Tensor& tensor) {
    if (touches || !isPlain(tensor)) return;
    touches = tensor.requires_grad();
    std::lock_guard lock(mutex_);
    const auto found = present_.find(tensor.storage().unsafeGetStorageImpl());
    touches = touches || (found != present_.end() && !found->second.storage.expired());
  });
  if (!touches) return;
  keepEverything("a step uses more than one stream of the GPU");
}

void StepRun::keepEverything(const std::string& why) {
  session_.keepEverything(why);
  const Locked lock(*this);
  leavePlan(why);
}

}  // namespace ebbtide::plugin
