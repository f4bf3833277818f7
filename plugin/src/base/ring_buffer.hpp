// RingBuffer: a fixed number of the last elements that were added, and how many older ones were
// lost. All of its memory is allocated at the start. Torch-free.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace ebbtide::plugin {

template <typename T>
class RingBuffer {
 public:
  explicit RingBuffer(std::size_t most) : kept_(most) {}

  void add(const T& one) noexcept { kept_[added_++ % kept_.size()] = one; }
  std::uint64_t lost() const noexcept { return added_ - size(); }
  std::size_t size() const noexcept { return std::min<std::uint64_t>(added_, kept_.size()); }
  // visit(one), the oldest first
  template <typename Visit>
  void forEach(Visit&& visit) const {
    for (std::uint64_t i = lost(); i < added_; ++i) visit(kept_[i % kept_.size()]);
  }

 private:
  std::vector<T> kept_;
  std::uint64_t added_ = 0;
};

}  // namespace ebbtide::plugin
