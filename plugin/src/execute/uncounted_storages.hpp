// UncountedStorages: memory of others (NumPy's, shared, a mapped file's) that tensors of a step lie
// in, which no budget counts. Includes torch. Thread rule: whoever has it guards it.
#pragma once

#include <algorithm>
#include <cstdint>
#include <unordered_map>

#include "record/weak_references.hpp"

namespace ebbtide::plugin {

class UncountedStorages {
 public:
  void add(const c10::Storage& storage) {
    const auto bytes = static_cast<std::int64_t>(storage.nbytes());
    if (bytes == 0) return;
    auto [found, added] = live_.try_emplace(storage.data(), Storage{noStorage(), 0});
    live_bytes_ += bytes - found->second.bytes;
    found->second = {weakly(storage), bytes};
    if (live_bytes_ <= most_bytes_) return;
    std::erase_if(live_, [this](const auto& known) {  // only then: it looks at all of them
      if (!known.second.there.expired()) return false;
      live_bytes_ -= known.second.bytes;
      return true;
    });
    most_bytes_ = std::max(most_bytes_, live_bytes_);
  }

  std::int64_t mostBytes() const noexcept { return most_bytes_; }  // at a time

 private:
  struct Storage {
    WeakStorage there;
    std::int64_t bytes;
  };

  std::unordered_map<const void*, Storage> live_;  // by address; those gone since, too
  std::int64_t live_bytes_ = 0, most_bytes_ = 0;
};

}  // namespace ebbtide::plugin
