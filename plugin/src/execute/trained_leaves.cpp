#include "execute/trained_leaves.hpp"

#include <algorithm>
#include <utility>

#include "record/op_record.hpp"

namespace ebbtide::plugin {

const at::TensorBase* TrainedLeaves::leafOf(const at::Tensor& tensor) {
  const bool view_of_leaf =
      tensor.is_view() && tensor._base().is_leaf() && tensor._base().requires_grad();
  if (view_of_leaf) return &tensor._base();
  return tensor.is_leaf() && tensor.requires_grad() ? &tensor : nullptr;
}

bool TrainedLeaves::knows(const StepLock::Held&, const at::TensorBase& leaf) const {
  return std::any_of(leaves_.begin(), leaves_.end(),
                     [&leaf](const Leaf& known) { return known.is(*leaf.unsafeGetTensorImpl()); });
}

void TrainedLeaves::add(const StepLock::Held&, const at::TensorBase& leaf,
                        const at::Tensor& tensor) {
  WeakVersion version(tensor.unsafeGetTensorImpl()->version_counter());
  leaves_.push_back(Leaf{leaf.unsafeGetTensorImpl(),
                         {std::move(version), Present::versionOf(tensor)},
                         weakly(tensor.storage()),
                         tensor.storage().unsafeGetStorageImpl(),
                         leaf.nbytes() < tensor.storage().nbytes()});
}

void TrainedLeaves::noteOtherData(const StepLock::Held&, const c10::TensorImpl& tensor) {
  for (Leaf& leaf : leaves_) {
    if (leaf.is(tensor)) leaf.now = tensor.unsafe_storage().unsafeGetStorageImpl();
  }
}

bool TrainedLeaves::changed(const StepLock::Held&) const {
  bool all_gone = !leaves_.empty();
  for (const Leaf& leaf : leaves_) {
    const bool swapped = leaf.now != leaf.storage._unsafe_get_target();
    if (swapped || leaf.counter.moved()) return true;  // `p.data = …`, or written in place
    all_gone = all_gone && leaf.storage.expired();
  }
  return all_gone;  // new leaves each step
}

bool TrainedLeaves::isAnotherPart(const StepLock::Held&,
                                  c10::ArrayRef<const c10::IValue> inputs) const {
  const auto is_part = [](const Leaf& leaf) { return leaf.is_part; };
  if (!std::all_of(leaves_.begin(), leaves_.end(), is_part)) return false;
  bool known = false, another = false;
  forEachTensor(inputs, [&](int, int, const at::Tensor& tensor) {
    const at::TensorBase* const trained = isPlain(tensor) ? leafOf(tensor) : nullptr;
    if (trained == nullptr) return;
    for (const Leaf& leaf : leaves_) {
      known = known || leaf.is(*trained->unsafeGetTensorImpl());
      another = another || leaf.now == tensor.storage().unsafeGetStorageImpl();
    }
  });
  return another && !known;
}

}  // namespace ebbtide::plugin
