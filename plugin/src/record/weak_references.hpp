// Weak references to torch's tensors, storages and version counters. Includes torch.
#pragma once

#include <c10/core/Storage.h>
#include <c10/core/StorageImpl.h>
#include <c10/core/TensorImpl.h>
#include <c10/core/UndefinedTensorImpl.h>

#include <cstdint>
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

// A version counter, to be read for as long as one likes. Weak: PyTorch makes a variable of a
// tensor in place where nobody else has its counter, else of a copy, which a TorchDispatchMode
// sees.
class WeakVersion {
 public:
  WeakVersion() = default;  // of a tensor without
  explicit WeakVersion(const c10::VariableVersion& counter) : counter_(identityOf(counter)) {
    if (counter_ == nullptr) return;
    auto* const target =
        const_cast<Target*>(static_cast<const Target*>(counter_));  // its one and only base
    kept_ = Weak(c10::intrusive_ptr<Target>::reclaim_copy(target));
  }

  bool enabled() const noexcept { return counter_ != nullptr; }
  const void* identity() const noexcept { return counter_; }
  // Its count lives as long as a weak reference does: nothing of it ends before.
  std::uint32_t current() const {
    alignas(c10::VariableVersion) unsigned char same[sizeof(c10::VariableVersion)];
    std::memcpy(same, &counter_, sizeof(counter_));  // no reference, so never to be destroyed
    return reinterpret_cast<const c10::VariableVersion*>(same)->current_version();
  }

 private:
  using Target = c10::intrusive_ptr_target;
  using Weak = c10::weak_intrusive_ptr<Target>;

  const void* counter_ = nullptr;
  Weak kept_ = Weak(c10::intrusive_ptr<Target>());
};

}  // namespace ebbtide::plugin
