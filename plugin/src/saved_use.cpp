#include "saved_use.hpp"

#include <torch/csrc/autograd/function.h>

#include <vector>

#include "thread_scopes.hpp"
#include "training_device.hpp"

namespace ebbtide::plugin {

namespace autograd = torch::autograd;

SavedUse::~SavedUse() {
  if (run_ == nullptr) return;
  std::erase(threadState().unbound, this);
  if (use_ != scheduler::kNone) run_->releaseUse(use_);
}

void SavedUse::call_pack_hook(const at::Tensor& tensor) {
  const QuietScope quiet;
  version_counter_ = tensor.is_inference() ? c10::VariableVersion(c10::VariableVersion::DISABLED)
                                           : tensor.unsafeGetTensorImpl()->version_counter();
  version_ = version_counter_.enabled() ? version_counter_.current_version() : 0;
  ThreadState& state = threadState();
  const bool trained_leaf = tensor.is_leaf() && tensor.requires_grad();
  if (!isPlain(tensor) || trained_leaf || state.steps.run() == nullptr || pass_through_ ||
      inBackward() || !state.steps.run()->onItsLane()) {
    // An output kept whole would hold its own node: keep what it looks at (pytorch 189025).
    strong_ = tensor.grad_fn() ? tensor.detach() : tensor;
    return;
  }
  run_ = state.steps.run();
  view_ = TensorView::of(tensor);
  const bool in_op = state.active != scheduler::kNone;
  const ValueId value = in_op ? run_->findValue(tensor) : run_->sourceValue(tensor);
  if (value == scheduler::kNone) {
    // An output of the running op, its input under a new version, or a copy of it.
    strong_ = view_.on(tensor.storage());
    strong_.unsafeGetTensorImpl()->set_version_counter(version_counter_);
    state.unbound.push_back(this);
    return;
  }
  saved_ = WeakTensor(tensor.getIntrusivePtr());
  saved_storage_ = weakly(tensor.storage());
  // While an op is recorded its outputs are not known yet and went above.
  if (const auto& maker = tensor.grad_fn(); maker && !in_op) {
    maker_ = maker.get();
    // Asking a view of something written in place for its maker makes a new one.
    maker_is_newest_ = !tensor.is_view() && maker->sequence_nr() + 1 == at::sequence_number::peek();
  }
  use_ = run_->addUse(value, tensor, view_, state.active);
}

void SavedUse::bind(OpId by) {
  const QuietScope quiet;
  use_ = run_->addUse(run_->sourceValue(strong_), strong_, view_, by);
  strong_.reset();
}

at::Tensor SavedUse::call_unpack_hook() {
  checkVersion();
  if (strong_.defined()) return strong_;
  const at::Tensor given = otherData();
  const at::Tensor tensor = given.defined() ? given : view_.on(run_->restore(use_));
  // The saved tensor's own counter: a backward that writes to it must be noticed by other uses.
  tensor.unsafeGetTensorImpl()->set_version_counter(version_counter_);
  return tensor;
}

// PyTorch keeps a saved input itself, no copy of its looks: where the program gave it other data
// since (`x.data = …`), or another part of the same, its backward reads that.
at::Tensor SavedUse::otherData() const {
  const c10::StorageImpl* const storage = storageOf(saved_);
  if (storage == nullptr) return {};
  const bool same = storage == saved_storage_.lock().get();
  if (same && view_.isOf(*saved_._unsafe_get_target())) return {};
  if (isOwnOutput()) return {};
  auto saved = saved_.lock();
  if (!saved) return {};
  const at::Tensor now(std::move(saved));
  return isPlain(now) ? TensorView::of(now).on(now.storage()) : now.detach();
}

// Of the node that saved it: PyTorch keeps an output as it was. The node was the newest when it
// saved it, unless its forward made others; it runs now, unless another one or a user asks for
// what it saved. Both nodes existed when it was saved, so that addresses tell them apart.
bool SavedUse::isOwnOutput() const {
  if (maker_ == nullptr || maker_is_newest_) return maker_ != nullptr;
  const auto node = autograd::get_current_node();
  return node != nullptr && node.get() == maker_;
}

// With hooks PyTorch leaves this check to them (saved_variable.cpp).
void SavedUse::checkVersion() const {
  if (!version_counter_.enabled()) return;
  const auto now = version_counter_.current_version();
  if (now == version_) return;
  const at::Tensor saved =
      strong_.defined()
          ? strong_
          : at::empty({0}, at::TensorOptions(trainingDevice().device).dtype(view_.dtype));
  const at::IntArrayRef sizes = strong_.defined() ? strong_.sizes() : at::IntArrayRef(view_.sizes);
  TORCH_CHECK(false,
              "one of the variables needed for gradient computation has been modified by an "
              "inplace operation: [",
              saved.toString(), " ", sizes, "] is at version ", now, "; expected version ",
              version_,
              " instead. Hint: enable anomaly detection to find the operation that failed to "
              "compute its gradient, "
              "with torch.autograd.set_detect_anomaly(True, check_nan=False).");
}

}  // namespace ebbtide::plugin
