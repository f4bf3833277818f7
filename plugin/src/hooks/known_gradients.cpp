#include "hooks/known_gradients.hpp"

#include <algorithm>
#include <vector>

namespace ebbtide::plugin {

KnownGradients& knownGradients() {
  static auto* const gradients = new KnownGradients();  // outlives static destruction
  return *gradients;
}

void KnownGradients::note(const c10::Storage& gradient) {
  const c10::StorageImpl* const storage = gradient.unsafeGetStorageImpl();
  std::lock_guard lock(mutex_);
  // One that is gone keeps its address until it leaves the list: it has a weak reference.
  if (!storages_.try_emplace(storage, weakly(gradient)).second || storages_.size() < look_at_)
    return;
  std::erase_if(storages_, [](const auto& entry) { return entry.second.expired(); });
  look_at_ = std::max(kFewest, 2 * storages_.size());
}

void KnownGradients::name(LiveShares& live) const {
  std::vector<c10::Storage> last;  // of what goes meanwhile: freed without the lock
  const std::lock_guard lock(mutex_);
  for (const auto& [address, weak] : storages_) {
    auto storage = weak.lock();
    if (!storage) continue;
    live.add(storage->data(), "gradients");
    last.emplace_back(std::move(storage));
  }
}

}  // namespace ebbtide::plugin
