#include "shown_values.hpp"

#include <fmt/format.h>

#include "ebbtide/scheduler/byte_size.hpp"

namespace ebbtide::cli {

std::string shownSeconds(std::optional<double> seconds) {
  if (!seconds || *seconds < 0) return "-";
  if (*seconds < 1e-3) return fmt::format("{:.0f} us", *seconds * 1e6);
  if (*seconds < 1) return fmt::format("{:.1f} ms", *seconds * 1e3);
  if (*seconds < 1e5) return fmt::format("{:.2f} s", *seconds);
  return fmt::format("{:.1e} s", *seconds);
}

// INT64_MAX: what does not limit.
std::string shownBytes(std::optional<std::int64_t> bytes) {
  if (!bytes) return "-";
  if (*bytes == INT64_MAX) return "none";
  constexpr double kTiB = 1099511627776.0;
  const auto value = static_cast<double>(*bytes);
  if (value >= 1e6 * kTiB) return fmt::format("{:.1e} TiB", value / kTiB);
  return value >= 4 * kTiB ? fmt::format("{:.2f} TiB", value / kTiB)
                           : scheduler::formatBytes(*bytes);
}

std::string shownBudget(std::optional<std::int64_t> bytes) {
  return bytes ? shownBytes(bytes) : "none";
}

std::string shownShare(std::optional<double> ratio) {
  if (!ratio) return "-";
  return *ratio < 1e4 ? fmt::format("{:.1f}%", 100 * *ratio) : fmt::format("{:.1e}%", 100 * *ratio);
}

std::string shownCount(std::optional<std::int64_t> count) {
  return count ? std::to_string(*count) : "-";
}

}  // namespace ebbtide::cli
