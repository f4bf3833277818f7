#include "execute/given_data.hpp"

#include <algorithm>
#include <utility>

namespace ebbtide::plugin {

const GivenData::Given* GivenData::find(const c10::TensorImpl* tensor) const {
  const auto found = std::find_if(given_.begin(), given_.end(), [tensor](const Given& one) {
    return one.tensor._unsafe_get_target() == tensor;
  });
  return found != given_.end() ? &*found : nullptr;
}

void GivenData::expect(const StepLock::Held&, const at::Tensor& tensor) {
  if (find(tensor.unsafeGetTensorImpl()) != nullptr) return;
  given_.push_back({WeakTensor(tensor.getIntrusivePtr()), {}});
  any_ = true;
}

at::Tensor GivenData::give(const StepLock::Held&, const c10::TensorImpl& tensor, at::Tensor data) {
  auto* const known = const_cast<Given*>(find(&tensor));
  if (known == nullptr) return data;
  return std::exchange(known->data, std::move(data));
}

at::Tensor GivenData::of(const StepLock::Held&, const c10::TensorImpl* tensor) const {
  const Given* const known = find(tensor);
  return known != nullptr ? known->data : at::Tensor();
}

std::vector<GivenData::Given> GivenData::takeAll(const StepLock::Held&) {
  any_ = false;
  return std::exchange(given_, {});
}

}  // namespace ebbtide::plugin
