// KnownGradients: which storages autograd accumulated gradients into, for the error when memory is
// out. Includes torch.
//
// Noted as each is accumulated: to ask the leaves later, somebody would have to hold them, and
// PyTorch swaps no tensor that others refer to, however weakly (torch.utils.swap_tensors).
// Thread rule: any thread.
#pragma once

#include <c10/core/StorageImpl.h>

#include <mutex>
#include <unordered_map>

#include "out_of_memory/live_shares.hpp"
#include "record/weak_references.hpp"

namespace ebbtide::plugin {

class KnownGradients {
 public:
  void note(const c10::Storage& gradient);
  void name(LiveShares& live) const;

 private:
  static constexpr std::size_t kFewest = 1024;  // up to which those that are gone stay in the list

  mutable std::mutex mutex_;
  std::unordered_map<const c10::StorageImpl*, WeakStorage> storages_;
  std::size_t look_at_ = kFewest;  // entries: then those that are gone leave it
};

KnownGradients& knownGradients();  // the process's

}  // namespace ebbtide::plugin
