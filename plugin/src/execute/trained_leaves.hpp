// TrainedLeaves: the parameters that a step has read, and whether they changed since. Includes
// torch.
//
// Thread rule: written() and noteWritten() from any thread; the rest takes the step's lock.
#pragma once

#include <ATen/ATen.h>

#include <atomic>
#include <vector>

#include "execute/present.hpp"
#include "execute/step_lock.hpp"

namespace ebbtide::plugin {

class TrainedLeaves {
 public:
  // The leaf that is trained in it, or that it is a view of; nullptr: it is none.
  static const at::TensorBase* leafOf(const at::Tensor& tensor);

  bool knows(const StepLock::Held&, const at::TensorBase& leaf) const;
  // `tensor`: the leaf, or a view of it, that the step reads.
  void add(const StepLock::Held&, const at::TensorBase& leaf, const at::Tensor& tensor);
  // It was given other data (`p.data = …`).
  void noteOtherData(const StepLock::Held&, const c10::TensorImpl& tensor);
  void noteWritten() noexcept { written_ = true; }  // in place, by what no step records

  bool written() const noexcept { return written_; }
  bool changed(const StepLock::Held&) const;  // since the step first read them
  // While it rests an op begins. Does that train another part of the same tensor, in the place of
  // all that this step trained? Of leaves that are parts no storage tells that they are gone.
  bool isAnotherPart(const StepLock::Held&, c10::ArrayRef<const c10::IValue> inputs) const;

 private:
  // A leaf, known by its address and its version counter. No reference to it, weak or strong:
  // PyTorch swaps no tensor that has one (torch.utils.swap_tensors), and a step may rest for long.
  struct Leaf {
    const c10::TensorImpl* leaf = nullptr;  // not to be followed
    Present::Counter counter;               // when the step read it first
    WeakStorage storage;                    // that it had then
    const c10::StorageImpl* now = nullptr;  // that it has: another one after `p.data = …`
    bool is_part = false;                   // of its storage, which may outlive it

    // An address is used again once its tensor is gone, the counter's not while this holds it.
    bool is(const c10::TensorImpl& tensor) const {
      return &tensor == leaf && identityOf(tensor.version_counter()) == counter.version.identity();
    }
  };

  std::vector<Leaf> leaves_;
  std::atomic<bool> written_{false};
};

}  // namespace ebbtide::plugin
