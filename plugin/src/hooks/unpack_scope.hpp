// UnpackScope: the calling thread runs the unpack hook of a user's, which may compute a region of
// the forward pass again (torch.utils.checkpoint, use_reentrant=False). Scopes nest. Includes
// torch.
//
// Thread rule: each thread has its own.
#pragma once

#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/graph_task.h>

namespace ebbtide::plugin {

class UnpackScope {
 public:
  UnpackScope()
      : outer_(current()),
        pass_(torch::autograd::get_current_graph_task_id()),
        node_(torch::autograd::get_current_node().get()) {
    current() = this;
  }
  ~UnpackScope() { current() = outer_; }
  UnpackScope(const UnpackScope&) = delete;
  UnpackScope& operator=(const UnpackScope&) = delete;

  static const UnpackScope* innermost() noexcept { return current(); }  // nullptr: none
  // Is that node still the one that unpacks? Not in a backward pass within the region: a hook there
  // may save a gradient, which AccumulateGrad takes as `.grad` unless another tensor refers to it.
  static bool isOfPresentNode() {
    const UnpackScope* const scope = current();
    return scope != nullptr && scope->node_ != nullptr &&
           scope->pass_ == torch::autograd::get_current_graph_task_id() &&
           scope->node_ == torch::autograd::get_current_node().get();
  }

 private:
  static UnpackScope*& current() noexcept {
    thread_local UnpackScope* scope = nullptr;
    return scope;
  }

  UnpackScope* const outer_;
  const int pass_;
  const torch::autograd::Node* const node_;  // not to be followed
};

}  // namespace ebbtide::plugin
