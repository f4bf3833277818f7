// RunKey: a run's place in a schedule in stages.
#pragma once

#include <compare>
#include <cstdint>

#include "ebbtide/scheduler/units.hpp"

namespace ebbtide::scheduler {

// When a run comes: by stage, then by op. Each op runs at most once a stage.
struct RunKey {
  std::uint64_t bits = 0;  // 0: before all runs, where graph inputs are made

  RunKey() = default;
  RunKey(OpId stage, OpId op)
      : bits(static_cast<std::uint64_t>(stage) << 32 | (static_cast<std::uint64_t>(op) + 1)) {}
  OpId stage() const { return static_cast<OpId>(bits >> 32); }
  OpId op() const { return static_cast<OpId>(bits & 0xffffffffu) - 1; }
  bool first() const { return stage() == op(); }

  // NOLINTNEXTLINE(modernize-use-nullptr): clang-tidy 14 takes the comparison's 0 for a pointer
  friend auto operator<=>(const RunKey&, const RunKey&) = default;
};

}  // namespace ebbtide::scheduler
