// Present: which value a storage holds now, and who may write there without an op that is seen.
// Includes torch. Thread rule: whoever has it guards it.
#pragma once

#include <ATen/ATen.h>
#include <c10/util/SmallVector.h>

#include <algorithm>
#include <cstdint>

#include "plan/plan.hpp"
#include "record/weak_references.hpp"

namespace ebbtide::plugin {

struct Present {
  // Parts of a storage may count their versions apart. A counter that moved with no recorded write
  // says that the contents are unknown.
  struct Counter {
    WeakVersion version;
    std::uint32_t known = 0;

    bool moved() const { return version.enabled() && version.current() != known; }
  };
  using Counters = c10::SmallVector<Counter, 1>;
  static constexpr std::size_t kMostCounters = 8;

  static std::uint32_t versionOf(const at::Tensor& tensor) {
    const c10::VariableVersion& version = tensor.unsafeGetTensorImpl()->version_counter();
    return version.enabled() ? static_cast<std::uint32_t>(version.current_version()) : 0;
  }
  const Counter* counterOf(const at::Tensor& tensor) const {
    return counterOf(identityOf(tensor.unsafeGetTensorImpl()->version_counter()));
  }
  const Counter* counterOf(const void* wanted) const {  // by its identity
    for (const Counter& counter : counters) {
      if (counter.version.identity() == wanted) return &counter;
    }
    return nullptr;
  }
  // No part of it was written without an op that we know.
  bool untouched() const {
    return std::all_of(counters.begin(), counters.end(),
                       [](const Counter& counter) { return !counter.moved(); });
  }
  void add(const Counter& counter) {
    if (counters.size() == kMostCounters) counters.erase(counters.begin() + 1);
    counters.push_back(counter);
  }

  WeakStorage storage;
  ValueId value = scheduler::kNone;
  Counters counters;  // the first: of the tensor that the value was born as
};

}  // namespace ebbtide::plugin
