// Annotations: what the program noted beside the history, for torch.cuda.memory_snapshot(). A ring:
// the latest ones are kept.
//
// Thread rule: any thread.
#pragma once

#include <c10/core/CachingDeviceAllocator.h>

#include <cstddef>
#include <functional>
#include <vector>

#include "base/guard.hpp"

namespace ebbtide::plugin::cuda {

class Annotations {
 public:
  using Entry = c10::CachingDeviceAllocator::AnnotationEntry;
  using Microseconds = std::function<c10::time_t(c10::approx_time_t)>;

  void setMost(std::size_t entries, bool clear);
  void add(Entry entry);
  // Oldest first.
  std::vector<Entry> entries(const Microseconds& microseconds) const;

 private:
  struct Ring {
    std::size_t most = 1;
    std::vector<Entry> entries;
    std::size_t next = 0;  // to be overwritten
  };

  mutable Guard<Annotations> guard_;
  Guarded<Ring, Annotations> ring_;
};

}  // namespace ebbtide::plugin::cuda
