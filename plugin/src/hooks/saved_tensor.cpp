#include "hooks/saved_tensor.hpp"

#include <c10/core/impl/TorchDispatchModeTLS.h>
#include <torch/csrc/autograd/anomaly_mode.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/graph_task.h>

#include <cstring>
#include <sstream>
#include <typeinfo>
#include <vector>

#include "base/thread_scopes.hpp"
#include "device/torch/training_device.hpp"
#include "hooks/unpack_scope.hpp"

namespace ebbtide::plugin {

namespace autograd = torch::autograd;

// In the mangled names of PyTorch's own nodes (torch::autograd::generated).
constexpr const char* kGenerated = "9generated";
// The name of torch.utils.checkpoint's node with use_reentrant, and of nodes that copy it.
constexpr const char* kReentrantCheckpointNode = "CheckpointFunctionBackward";

SavedTensor::~SavedTensor() {
  if (run_ == nullptr) return;
  if (use_ != scheduler::kNone) {
    run_->releaseUse(use_);
  } else {
    std::erase(threadState().unbound, this);
  }
}

namespace {

bool isPyTorchsOwn(const autograd::Node& node) {
  return std::strstr(typeid(node).name(), kGenerated) != nullptr;
}

// True: we manage what the backward pass saves, as it creates a graph, or as a checkpoint computes
// again. Elsewhere a hook may save the gradient itself. AccumulateGrad takes a gradient as `.grad`
// unless another tensor refers to it. PyTorch's own saved variable does, and ours would not
// (accumulate_grad.h).
bool savesInBackward(const ThreadState& state) {
  const int task = autograd::get_current_graph_task_id();
  if (task >= 0 && task == state.graph_creator) return true;
  const auto node = autograd::get_current_node();
  return node != nullptr && !isPyTorchsOwn(*node) && node->name() == kReentrantCheckpointNode;
}

// True: the node that runs may save what it unpacks, or what it computes again may.
bool maySaveItAgain() {
  if (at::GradMode::is_enabled() || UnpackScope::innermost() != nullptr) return true;
  const auto node = autograd::get_current_node();
  return node != nullptr && !isPyTorchsOwn(*node);
}

// PyTorch keeps a copy of an output, which a TorchDispatchMode sees.
void showCopy(const at::Tensor& output) {
  if (c10::impl::TorchDispatchModeTLS::any_modes_set()) output.tensor_data();
}

}  // namespace

bool SavedTensor::isToManage(const at::Tensor& tensor) {
  const ThreadState& state = threadState();
  if (state.steps.run() == nullptr) return false;
  // A dispatch mode lets autograd save before an op begins the step: that is not the last step's.
  if (inBackward() ? !savesInBackward(state) : state.steps.updated()) return false;
  return isOfAStep(tensor);
}

bool SavedTensor::isOfAStep(const at::Tensor& tensor) {
  const std::shared_ptr<StepRun>& run = threadState().steps.run();
  if (run == nullptr || !isPlain(tensor)) return false;
  const auto bytes = static_cast<std::int64_t>(tensor.storage().nbytes());
  if (bytes < run->options().least_saved_bytes) return false;
  const bool trained_leaf = tensor.is_leaf() && tensor.requires_grad();
  return !trained_leaf && run->onItsLane();
}

void SavedTensor::call_pack_hook(const at::Tensor& tensor) {
  const QuietScope quiet;
  version_counter_ = tensor.is_inference() ? c10::VariableVersion(c10::VariableVersion::DISABLED)
                                           : tensor.unsafeGetTensorImpl()->version_counter();
  version_ = version_counter_.enabled() ? version_counter_.current_version() : 0;
  ThreadState& state = threadState();
  if (tensor.unsafeGetTensorImpl() != to_manage_ && !isToManage(tensor)) {
    // An output kept whole would hold its own node: keep what it looks at (pytorch 189025).
    strong_ = tensor.grad_fn() ? tensor.detach() : tensor;
    return;
  }
  opCalls().tell();  // from now on one may detach it, or let go of the graph
  run_ = state.steps.run();
  view_ = TensorView::of(tensor);
  const bool in_op = state.active != scheduler::kNone;
  const auto& maker = tensor.grad_fn();
  use_ = in_op ? run_->recorder().addUseOfKnown(tensor, view_, state.active, maker.get())
               : run_->recorder().addUseBetweenOps(tensor, view_, maker.get());
  if (use_ == scheduler::kNone) {
    // An output of the running op, its input under a new version, or a copy of it.
    if (tensor.grad_fn()) showCopy(tensor);
    strong_ = view_.on(tensor.storage());
    strong_.unsafeGetTensorImpl()->set_version_counter(version_counter_);
    state.unbound.push_back(this);
    return;
  }
  saved_ = WeakTensor(tensor.getIntrusivePtr());
  saved_storage_ = weakly(tensor.storage());
  in_op_ = in_op;
  if (maker) {
    maker_ = maker.get();
    maker_output_ = tensor.output_nr();
    // Asking a view of something written in place for its maker makes a new one.
    maker_is_newest_ = !tensor.is_view() && maker->sequence_nr() + 1 == at::sequence_number::peek();
  }
  if (isOwnOutput()) showCopy(tensor);
}

void SavedTensor::bind(OpId by) {
  const QuietScope quiet;
  use_ = run_->recorder().addUseOfKnown(strong_, view_, by, nullptr);
  if (use_ == scheduler::kNone)
    use_ =
        run_->recorder().addUse(run_->recorder().graphInput(strong_), strong_, view_, by, nullptr);
  strong_.reset();
}

at::Tensor SavedTensor::call_unpack_hook() {
  if (keeper_ == Keeper::kAutograd) {
    if (run_ != nullptr) checkDetached();
    checkVersion();
  }
  if (strong_.defined()) return strong_;
  const at::Tensor given = otherData();
  if (given.defined() && !isPlain(given)) return given;
  const c10::Storage storage = given.defined() ? given.storage() : run_->restore(use_);
  if (at::Tensor saved = savedItself(storage); saved.defined()) return saved;
  const TensorView& looks = given.defined() ? TensorView::of(given) : view_;
  const at::Tensor tensor = isVariable() ? looks.unseenOn(storage) : looks.on(storage);
  // The saved tensor's own counter: a backward that writes to it must be noticed by other uses.
  tensor.unsafeGetTensorImpl()->set_version_counter(version_counter_);
  if (!given.defined() && maySaveItAgain())
    run_->recorder().noteRestored(use_, storage, version_counter_);
  return tensor;
}

// Of what has a history PyTorch makes a variable, where without hooks it would give what it kept: a
// TorchDispatchMode is not to see that.
bool SavedTensor::isVariable() const {
  return maker_ != nullptr && c10::impl::TorchDispatchModeTLS::any_modes_set() && !isOwnOutput();
}

// What has none is given as it is: the program is to know it again.
at::Tensor SavedTensor::savedItself(const c10::Storage& storage) const {
  if (maker_ != nullptr || storageOf(saved_) != storage.unsafeGetStorageImpl()) return {};
  if (!view_.isOf(*saved_._unsafe_get_target())) return {};
  return at::Tensor(saved_.lock());
}

// PyTorch keeps a saved input itself, no copy of its looks: where the program gave it other data
// since (`x.data = …`), or another part of the same, its backward reads that.
at::Tensor SavedTensor::otherData() const {
  if (keeper_ == Keeper::kFrame && maker_ != nullptr) return {};
  const c10::StorageImpl* const storage = storageOf(saved_);
  if (storage == nullptr) {
    at::Tensor given = run_->dataGivenTo(saved_._unsafe_get_target());
    return given.defined() && !isOwnOutput() ? given : at::Tensor();
  }
  // What is weakly referred to keeps its address: another storage has another one.
  const bool same = storage == saved_storage_._unsafe_get_target();
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
bool SavedTensor::isOwnOutput() const {
  if (maker_ == nullptr || in_op_) return false;  // an op's outputs are not known while it runs
  if (maker_is_newest_) return true;
  const auto node = autograd::get_current_node();
  return node != nullptr && node.get() == maker_;
}

// PyTorch finds that a saved input has no history any more. A Function, whose own saved tensors it
// does not check so, takes the input as a new leaf.
void SavedTensor::checkDetached() const {
  if (maker_ == nullptr || !run_->isDetached(use_) || isOwnOutput()) return;
  const auto node = autograd::get_current_node();
  const autograd::Node* const reader = node.get();
  if (reader != nullptr && !isPyTorchsOwn(*reader)) return;
  TORCH_CHECK(false,
              "Trying to use a saved tensor that has been detached in-place, i.e. with .detach_()."
              "This is not supported, please use out-of-place `.detach()` instead");
}

// ", which is output 0 of AddBackward0,": where it is sure that the node lives.
std::string SavedTensor::makerText() const {
  if (maker_ == nullptr) return "";
  const autograd::Node* maker = in_op_ ? maker_ : nullptr;  // autograd keeps an input's
  if (const auto node = autograd::get_current_node()) {
    if (node.get() == maker_) maker = maker_;
    for (const autograd::Edge& edge : node->next_edges()) {
      if (edge.function.get() == maker_) maker = maker_;
    }
  }
  if (maker == nullptr) return "";
  return ", which is output " + std::to_string(maker_output_) + " of " + maker->name() + ",";
}

// With hooks PyTorch leaves this check to them (saved_variable.cpp).
void SavedTensor::checkVersion() const {
  if (!version_counter_.enabled()) return;
  const auto now = version_counter_.current_version();
  if (now == version_) return;
  const at::Tensor saved =
      strong_.defined()
          ? strong_
          : at::empty({0}, at::TensorOptions(trainingDevice().device).dtype(view_.dtype));
  std::ostringstream sizes;
  if (strong_.defined() && strong_.is_nested()) {
    sizes << strong_._nested_tensor_size();
  } else {
    sizes << (strong_.defined() ? strong_.sizes() : at::IntArrayRef(view_.sizes));
  }
  const bool anomaly = autograd::AnomalyMode::is_enabled();
  TORCH_CHECK(
      false,
      "one of the variables needed for gradient computation has been modified by an inplace "
      "operation: [",
      saved.toString(), " ", sizes.str(), "]", makerText(), " is at version ", now,
      "; expected version ", version_, " instead.",
      anomaly ? " Hint: the backtrace further above shows the operation that failed to compute its "
                "gradient. The variable in question was changed in there or anywhere later. Good "
                "luck!"
              : " Hint: enable anomaly detection to find the operation that failed to compute its "
                "gradient, with torch.autograd.set_detect_anomaly(True, check_nan=False).");
}

}  // namespace ebbtide::plugin
