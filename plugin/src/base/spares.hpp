// Spares: emptied containers of what has ended, for the next of its kind, which fills as many
// places again and so allocates nothing.
//
// Thread rule: any; who finds the lock taken, in a forked child for ever perhaps, begins with a new
// one. Torch-free.
#pragma once

#include <cstddef>
#include <mutex>
#include <utility>
#include <vector>

namespace ebbtide::plugin {

// `Container` has clear() and capacity(), and moves.
template <typename Container>
class Spares {
 public:
  static constexpr std::size_t kMost = 4;

  // `most_places`: none with room for more is kept.
  explicit Spares(std::size_t most_places) : most_places_(most_places) { kept_.reserve(kMost); }

  Container take() noexcept {  // an empty one
    const std::unique_lock lock(mutex_, std::try_to_lock);
    if (!lock || kept_.empty()) return {};
    Container one = std::move(kept_.back());
    kept_.pop_back();
    return one;
  }
  void giveBack(Container&& one) noexcept {
    Container emptied = std::move(one);  // freed without the lock where it is not kept
    emptied.clear();
    if (emptied.capacity() == 0 || emptied.capacity() > most_places_) return;
    const std::unique_lock lock(mutex_, std::try_to_lock);
    if (lock && kept_.size() < kMost) kept_.push_back(std::move(emptied));
  }

 private:
  const std::size_t most_places_;
  std::mutex mutex_;
  std::vector<Container> kept_;
};

}  // namespace ebbtide::plugin
