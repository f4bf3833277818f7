#include "planners/lower_sets/lower_set_extensions.hpp"

#include <algorithm>
#include <bit>
#include <numeric>
#include <utility>

namespace ebbtide::scheduler {
namespace {

// Extensions that are found once and kept: 144 MB. More are found anew in each pass.
constexpr std::size_t kMostKept = 6'000'000;

}  // namespace

LowerSetExtensions::LowerSetExtensions(const LowerSetProblem& problem, LowerSetFamily family,
                                       const LowerSetLimits& limits)
    : problem_(problem), limits_(limits), family_(std::move(family)) {
  std::int64_t largest = 0;
  for (const LowerSet& lower : family_) {
    members_.insert(members_.end(), lower.members.begin(), lower.members.end());
    top_.push_back(lower.top);
    memory_.push_back(lower.memory);
    largest_memory_.push_back(largest = std::max(largest, lower.memory));
    around_.push_back(lower.around);
  }
  chooseNarrow();
  measureTimes();
  keep();
}

// Windows of equal length over the family; of each, the member with the smallest boundary.
void LowerSetExtensions::chooseNarrow() {
  const std::size_t inner = family_.size() - 2;
  std::vector<std::int64_t> boundary_bytes(family_.size(), 0);
  for (std::size_t i = 0; i < family_.size(); ++i) {
    for (std::int32_t v : family_[i].boundary) boundary_bytes[i] += problem_.memory[v];
  }
  for (std::size_t window = 0; window < limits_.narrow; ++window) {
    const auto begin = boundary_bytes.begin() + 1;
    const auto from = begin + static_cast<std::ptrdiff_t>(window * inner / limits_.narrow);
    const auto to = begin + static_cast<std::ptrdiff_t>((window + 1) * inner / limits_.narrow);
    if (from == to) continue;
    narrow_.push_back(
        static_cast<std::size_t>(std::min_element(from, to) - boundary_bytes.begin()));
  }
}

void LowerSetExtensions::measureTimes() {
  std::int64_t unit = 0;
  for (const std::int64_t time : problem_.time) unit = std::gcd(unit, time);
  unit = std::max<std::int64_t>(unit, 1);
  for (const std::int64_t time : problem_.time) node_time_.push_back(time / unit);
  for (const LowerSet& lower : family_) time_.push_back(lower.time / unit);
}

// With V' = L' \ L, T(V' \ d(L')) = T(L') - T(L) - T(d(L') \ L), since a node of L in the boundary
// of L' is in the boundary of L too and is cached already.
class LowerSetExtensions::Extender {
 public:
  Extender(const LowerSetExtensions& all, std::size_t to, std::vector<LowerSetExtension>& found)
      : all_(all), to_(to), upper_(all.family_[to]), found_(found) {
    for (std::int32_t v : upper_.boundary) {
      const std::size_t word = static_cast<std::size_t>(v) / 64;
      if (boundary_.empty() || boundary_.back().first != word) boundary_.emplace_back(word, 0);
      boundary_.back().second |= std::uint64_t{1} << (v % 64);
    }
  }

  void operator()(std::size_t from) {
    const std::int32_t top = all_.top_[from];
    if (top >= 0 ? !upper_.has(top) || from == to_ : !upper_.above(all_.family_[from])) return;
    const std::uint64_t* lower = all_.members_.data() + from * upper_.members.size();
    LowerSetExtension step{static_cast<std::int32_t>(from), all_.time_[to_] - all_.time_[from], 0};
    for (const auto& [word, bits] : boundary_) {
      for (std::uint64_t rest = bits & ~lower[word]; rest != 0; rest &= rest - 1) {
        const std::size_t v = 64 * word + static_cast<std::size_t>(std::countr_zero(rest));
        step.time -= all_.node_time_[v];
        step.memory += all_.problem_.memory[v];
      }
    }
    found_.push_back(step);
  }

 private:
  const LowerSetExtensions& all_;
  std::size_t to_;
  const LowerSet& upper_;
  std::vector<LowerSetExtension>& found_;
  std::vector<std::pair<std::size_t, std::uint64_t>> boundary_;  // words of its bits
};

void LowerSetExtensions::find(std::size_t to, std::vector<LowerSetExtension>& found) const {
  Extender extend(*this, to, found);
  const std::size_t near = to - std::min(to, limits_.nearest);
  if (near > 0) extend(0);
  for (std::size_t from : narrow_) {
    if (from >= near) break;
    if (from > 0) extend(from);
  }
  for (std::size_t from = near; from < to; ++from) extend(from);
}

void LowerSetExtensions::keep() {
  const std::size_t pairs = std::min(family_.size(), limits_.nearest) * family_.size() / 2;
  kept_.reserve(std::min(pairs, kMostKept));
  for (std::size_t to = 0; to < family_.size(); ++to) {
    if (kept_.size() > kMostKept || limits_.late()) return;
    find(to, kept_);
    kept_end_.push_back(kept_.size());
  }
}

// M(L) rises with L as a rule, and terms (ii) to (iv) of formula (2) fall as it rises.
std::span<const LowerSetExtension> LowerSetExtensions::to(
    std::size_t set, std::int64_t budget, std::vector<LowerSetExtension>& scratch) const {
  std::span<const LowerSetExtension> all;
  if (set < kept_end_.size()) {
    const std::size_t begin = set == 0 ? 0 : kept_end_[set - 1];
    all = {kept_.data() + begin, kept_end_[set] - begin};
  } else {
    scratch.clear();
    find(set, scratch);
    all = scratch;
  }
  const auto over = [&](const LowerSetExtension& step) {
    const std::int64_t most = largest_memory_[static_cast<std::size_t>(step.from)];
    return 2 * (memory_[set] - most) + around_[set] > budget;
  };
  const auto first = std::partition_point(all.begin(), all.end(), over);
  return all.subspan(static_cast<std::size_t>(first - all.begin()));
}

}  // namespace ebbtide::scheduler
