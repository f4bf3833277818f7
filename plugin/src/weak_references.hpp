// Weak references to torch's tensors and storages. Includes torch.
#pragma once

#include <c10/core/Storage.h>
#include <c10/core/StorageImpl.h>
#include <c10/core/TensorImpl.h>
#include <c10/core/UndefinedTensorImpl.h>

#include <cstring>

namespace ebbtide::plugin {

using WeakStorage = c10::weak_intrusive_ptr<c10::StorageImpl>;
using WeakTensor = c10::weak_intrusive_ptr<c10::TensorImpl, c10::UndefinedTensorImpl>;

inline WeakStorage noStorage() {
  return WeakStorage(c10::intrusive_ptr<c10::StorageImpl>());
}

inline WeakStorage weakly(const c10::Storage& storage) {
  return WeakStorage(
      c10::intrusive_ptr<c10::StorageImpl>::reclaim_copy(storage.unsafeGetStorageImpl()));
}

inline WeakTensor noTensor() {
  return WeakTensor(c10::intrusive_ptr<c10::TensorImpl, c10::UndefinedTensorImpl>());
}

// Which storage the tensor has now, not to be followed: nullptr when the tensor is gone. Takes no
// reference to it, since that may wait for Python's lock.
inline const c10::StorageImpl* storageOf(const WeakTensor& tensor) {
  if (tensor.expired()) return nullptr;
  return tensor._unsafe_get_target()->unsafe_storage().unsafeGetStorageImpl();
}

// Tells version counters apart: all views of a tensor share one, but `.data` and the parts that
// unsafe_split makes of it have their own. nullptr for a tensor without (inference mode).
inline const void* identityOf(const c10::VariableVersion& counter) {
  static_assert(sizeof(counter) == sizeof(void*));  // one intrusive_ptr, which nothing else shows
  const void* identity = nullptr;
  std::memcpy(&identity, &counter, sizeof(identity));
  return identity;
}

}  // namespace ebbtide::plugin
