#include "ebbtide/metrics/recomputed_ops.hpp"

#include <algorithm>
#include <exception>

namespace ebbtide::metrics {

std::size_t RecomputedOps::numbered(const Held&, const std::string& op) {
  const auto known = std::find(ops_.begin(), ops_.end(), op);
  if (known != ops_.end()) return static_cast<std::size_t>(known - ops_.begin());
  if (ops_.size() == kMostOps) return 0;
  ops_.push_back(op);
  return ops_.size() - 1;
}

std::size_t RecomputedOps::numberOf(const std::string& op) noexcept try {
  const Held held(mutex_);
  return numbered(held, op);
} catch (const std::exception&) {
  return 0;  // no memory
}

bool RecomputedOps::hasName(const Held&, std::size_t op) const noexcept {
  const auto count = static_cast<std::ptrdiff_t>(named_count_.load(std::memory_order_relaxed));
  return std::any_of(named_.begin(), named_.begin() + count,
                     [op](const auto& named) { return named == op; });
}

// Precondition: a name is left.
void RecomputedOps::giveName(const Held&, std::size_t op) noexcept {
  const std::size_t count = named_count_.load(std::memory_order_relaxed);
  named_[count] = op;
  named_count_.store(count + 1, std::memory_order_release);
}

void RecomputedOps::expect(const std::vector<std::string>& ops) noexcept try {
  const Held held(mutex_);
  for (const std::string& op : ops) {
    if (named_count_ == kMostNames) return;
    const std::size_t number = numbered(held, op);
    if (number != 0 && !hasName(held, number)) giveName(held, number);
  }
} catch (const std::exception&) {  // no memory
}

void RecomputedOps::noteStepEnd() noexcept {
  const Held held(mutex_);
  while (named_count_ < kMostNames) {
    std::size_t most = 0;  // that has none
    std::int64_t most_ns = 0;
    for (std::size_t op = 1; op < kMostOps; ++op) {
      if (spentNs(op) <= most_ns || hasName(held, op)) continue;
      most = op;
      most_ns = spentNs(op);
    }
    if (most == 0) return;
    giveName(held, most);
  }
}

// While names are left, what has none yet gets one at the step's end.
std::vector<std::pair<std::string, double>> RecomputedOps::seconds() const {
  const std::size_t count = named_count_.load(std::memory_order_acquire);
  std::vector<std::pair<std::string, double>> all;
  std::array<bool, kMostOps> has_name{};
  {
    const Held held(mutex_);
    for (std::size_t i = 0; i < count; ++i) {
      const std::size_t op = named_[i];
      has_name[op] = true;
      all.emplace_back(ops_[op], static_cast<double>(spentNs(op)) * 1e-9);
    }
  }
  std::int64_t other_ns = spentNs(0);
  for (std::size_t op = 1; count == kMostNames && op < kMostOps; ++op) {
    if (!has_name[op]) other_ns += spentNs(op);
  }
  all.emplace_back(kOther, static_cast<double>(other_ns) * 1e-9);
  return all;
}

}  // namespace ebbtide::metrics
