// RecomputedOps: recompute time by operator. A bounded number of operators is exported by name.
//
// Counters must not fall, so an operator that has a name of its own keeps it. Names are given out
// until kMostNames have one: to those that a plan is about to replay, so that their series start at
// 0, and at the ends of steps to whoever took most time of those without one. All others are one,
// "other".
//
// Thread rule: any thread; add() is lock-free and indexes an array.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

namespace ebbtide::metrics {

class RecomputedOps {
 public:
  static constexpr std::size_t kMostNames = 20;
  static constexpr std::size_t kMostOps = 512;  // operators told apart
  static constexpr const char* kOther = "other";

  // Of an operator, for as long as the process lives: once an operator, not once a call. 0 where no
  // more can be told apart.
  std::size_t numberOf(const std::string& op) noexcept;
  void add(std::size_t number, std::int64_t duration_ns) noexcept {
    spent_ns_[number < kMostOps ? number : 0].fetch_add(duration_ns, std::memory_order_relaxed);
  }
  // Those of a plan that begins, most time first. Where memory is short the steps' ends name them.
  void expect(const std::vector<std::string>& ops) noexcept;
  void noteStepEnd() noexcept;

  // Those with a name, in the order in which they got it; "other" last.
  std::vector<std::pair<std::string, double>> seconds() const;

 private:
  std::int64_t spentNs(std::size_t op) const noexcept {
    return spent_ns_[op].load(std::memory_order_relaxed);
  }

  using Held = std::lock_guard<std::mutex>;

  std::size_t numbered(const Held&, const std::string& op);
  bool hasName(const Held&, std::size_t op) const noexcept;
  void giveName(const Held&, std::size_t op) noexcept;

  mutable std::mutex mutex_;  // guards the operators, and who gets a name
  std::vector<std::string> ops_{kOther};
  std::array<std::atomic<std::int64_t>, kMostOps> spent_ns_{};  // of 0: of all that have no number
  // Numbers, in the order in which they got a name.
  std::array<std::atomic<std::size_t>, kMostNames> named_{};
  std::atomic<std::size_t> named_count_{0};
};

}  // namespace ebbtide::metrics
