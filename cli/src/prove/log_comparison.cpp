#include "prove/log_comparison.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace ebbtide::cli {
namespace {

constexpr std::size_t kFewestTimes = 3;  // that have a median worth telling

using What = Difference::What;

std::optional<Difference> differenceOf(const ProofLog& one, const ProofLog& other,
                                       const std::string& process) {
  const std::size_t both = std::min(one.updates.size(), other.updates.size());
  for (std::size_t i = 0; i < both; ++i) {
    const std::string &a = one.updates[i].checksum, &b = other.updates[i].checksum;
    if (a == b && !a.empty()) continue;
    const What what = a.empty() || b.empty() ? What::kUnread : What::kParameters;
    return Difference{what, static_cast<std::int64_t>(i) + 1, process};
  }
  if (one.updates.size() == other.updates.size()) return std::nullopt;
  return Difference{What::kMissing, static_cast<std::int64_t>(both) + 1, process};
}

}  // namespace

std::optional<Difference> firstDifference(const RunLogs& one, const RunLogs& other) {
  if (one.size() != other.size()) return Difference{What::kProcesses, 0, ""};
  std::optional<Difference> first;
  for (std::size_t i = 0; i < one.size(); ++i) {
    const auto found = differenceOf(one[i], other[i], nameOf(one[i], i, one.size()));
    if (found && (!first || found->update < first->update)) first = found;
  }
  return first;
}

std::string describe(const Difference& difference) {
  std::string where = fmt::format("update {} on {}", difference.update, difference.process);
  switch (difference.what) {
    case What::kParameters:
      return where + " differs";
    case What::kMissing:
      return where + " is missing in one of the runs";
    case What::kUnread:
      return "no parameter can be read at " + where;
    case What::kProcesses:
      return "the runs train in different numbers of processes";
  }
  return where;
}

std::int64_t updatesOfAll(const RunLogs& logs) {
  std::size_t fewest = logs.empty() ? 0 : SIZE_MAX;
  for (const ProofLog& log : logs) fewest = std::min(fewest, log.updates.size());
  return static_cast<std::int64_t>(fewest);
}

std::optional<double> medianSeconds(const RunLogs& run, std::int64_t from_update) {
  const auto before = static_cast<std::size_t>(std::max<std::int64_t>(from_update - 1, 0));
  std::vector<double> times;
  for (const ProofLog& log : run) {
    for (std::size_t i = before; i < log.updates.size(); ++i) {
      if (const auto seconds = log.updates[i].seconds) times.push_back(*seconds);
    }
  }
  if (times.size() < kFewestTimes) return std::nullopt;
  const auto middle = times.begin() + static_cast<std::ptrdiff_t>(times.size() / 2);
  std::nth_element(times.begin(), middle, times.end());
  return *middle;
}

}  // namespace ebbtide::cli
