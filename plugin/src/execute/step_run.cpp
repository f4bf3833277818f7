#include "execute/step_run.hpp"

#include <utility>

namespace ebbtide::plugin {

using EventKind = scheduler::TraceEvent::Kind;

StepRun::StepRun(const RunParts& run, Options options, std::shared_ptr<const Plan> plan)
    : options_(std::move(options)),
      step_(run, options_.number, options_.log),
      records_or_replays_(options_.record_ops || plan != nullptr || step_.keeps_op_records) {
  if (records_or_replays_) ++may_replay_;  // before anything may be dropped
  step_.follower.follow(std::move(plan));
}

StepRun::~StepRun() {
  if (records_or_replays_) --may_replay_;
}

bool StepRun::outgrown() const noexcept {
  return step_.ops.outgrown() || step_.saved.count() > kMostUses;
}

// Whatever is known of its storage: an unseen write may have ended that. A trained leaf stays, and
// must have no weak reference (TrainedLeaves).
void StepRun::expectOtherData(const at::Tensor& tensor) {
  if (liveUses() == 0 || !isPlain(tensor) || (tensor.is_leaf() && tensor.requires_grad())) return;
  const StepLock::Held lock(step_.lock);
  given_.expect(lock, tensor);
}

void StepRun::noteOtherData(const at::Tensor& tensor) {
  const c10::TensorImpl* const impl = tensor.unsafeGetTensorImpl();
  {
    const StepLock::Held lock(step_.lock);
    step_.leaves.noteOtherData(lock, *impl);
    if (!given_.expects(lock, impl)) return;
  }
  at::Tensor data =
      isPlain(tensor) ? TensorView::of(tensor).unseenOn(tensor.storage()) : tensor.variable_data();
  const StepLock::Held lock(step_.lock);
  data = given_.give(lock, *impl, std::move(data));  // the old one is freed after the lock
}

void StepRun::noteDetached(const at::Tensor& tensor) {
  const torch::autograd::Node* const maker = tensor.grad_fn().get();
  if (maker == nullptr || !tensor.has_storage()) return;
  const StepLock::Held lock(step_.lock);
  const Present* const found = step_.values.presentIn(lock, tensor);
  if (found == nullptr) return;
  step_.saved.noteDetached(step_.values[found->value].uses(), {maker, tensor.output_nr()});
}

// What the step knows of reaches another lane: that one may still read or write it when the step
// gives it up here.
void StepRun::noteOtherLane(c10::ArrayRef<const c10::IValue> inputs) {
  bool touches = false;
  forEachTensor(inputs, [&](int, int, const at::Tensor& tensor) {
    if (touches || !isPlain(tensor)) return;
    touches = tensor.requires_grad();
    const StepLock::Held lock(step_.lock);
    touches = touches || step_.values.presentIn(lock, tensor) != nullptr;
  });
  if (!touches) return;
  kept_values_.keepEverything("a step uses more than one stream of the GPU");
}

bool StepRun::isDetached(UseId use) const {
  if (!step_.saved.anyDetached()) return false;
  const StepLock::Held lock(step_.lock);
  return step_.saved.isDetached(use);
}

at::Tensor StepRun::dataGivenTo(const c10::TensorImpl* tensor) const {
  if (!given_.any()) return {};
  const StepLock::Held lock(step_.lock);
  return given_.of(lock, tensor);
}

void StepRun::releaseUse(UseId use) noexcept {
  {
    const StepLock::Freeing lock(step_.lock);
    if (!step_.saved.release(use)) return;
    if (step_.saved.isLeftOver(use)) step_.graphs.addLeftOver(-1);
    step_.follower.cursor().touch();
    if (step_.log) step_.log->add(EventKind::kRelease, use);
    kept_values_.endUse(lock, use);
  }
  if (step_.saved.endOne() > 0) return;
  if (given_.any()) {
    std::vector<GivenData::Given> unread;  // freed after the lock
    const StepLock::Held lock(step_.lock);
    unread = given_.takeAll(lock);
  }
  backward_.finishLast();
  if (step_.follower.offPlan()) {
    kept_values_.giveUpAll();
  } else if (step_.follower.plan()) {
    const StepLock::Freeing lock(step_.lock);
    kept_values_.giveUpUnasked(lock);
  }
  if (step_.log) step_.log->rest();
}

bool StepRun::parametersChanged() const {
  if (step_.leaves.written()) return true;
  const StepLock::Held lock(step_.lock);
  return step_.leaves.changed(lock);
}

bool StepRun::readsAnotherPart(c10::ArrayRef<const c10::IValue> inputs) const {
  const StepLock::Held lock(step_.lock);
  return step_.leaves.isAnotherPart(lock, inputs);
}

std::int64_t StepRun::uncountedBytes() const {
  const StepLock::Held lock(step_.lock);
  return step_.values.uncountedBytes(lock);
}

scheduler::Trace StepRun::takeTrace() {
  const StepLock::Held lock(step_.lock);
  scheduler::Trace trace;
  step_.ops.addTo(lock, trace);
  step_.values.addTo(lock, trace);
  step_.saved.addTo(trace);
  step_.log->moveInto(trace);
  return trace;
}

}  // namespace ebbtide::plugin
