// GivenData: what saved inputs look at since the program gave them other data (`x.data = …`).
// PyTorch keeps a saved input itself, so its backward reads that data, too, if the program has let
// go of the tensor since. An alias without a history keeps it here, until no saved tensor of the
// step is left. Includes torch.
//
// Thread rule: takes the step's lock, but for any().
#pragma once

#include <ATen/ATen.h>

#include <atomic>
#include <vector>

#include "execute/step_lock.hpp"
#include "record/weak_references.hpp"

namespace ebbtide::plugin {

class GivenData {
 public:
  struct Given {
    WeakTensor tensor;  // keeps its address
    at::Tensor data;    // undefined: as it was
  };

  // A tensor that may be saved is about to be given other data.
  void expect(const StepLock::Held&, const at::Tensor& tensor);
  bool expects(const StepLock::Held&, const c10::TensorImpl* tensor) const {
    return find(tensor) != nullptr;
  }
  // It has been. `data` looks at it. Does nothing where that was not expected. Returns what is to
  // be freed once the lock is released.
  at::Tensor give(const StepLock::Held&, const c10::TensorImpl& tensor, at::Tensor data);
  // Undefined: it has the data that it had. `tensor` is not followed, as it may be gone.
  at::Tensor of(const StepLock::Held&, const c10::TensorImpl* tensor) const;
  std::vector<Given> takeAll(const StepLock::Held&);  // to be freed once the lock is released
  bool any() const noexcept { return any_.load(std::memory_order_relaxed); }

 private:
  const Given* find(const c10::TensorImpl* tensor) const;

  std::vector<Given> given_;
  std::atomic<bool> any_{false};
};

}  // namespace ebbtide::plugin
