#include "ebbtide/metrics/exposition_format.hpp"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <optional>
#include <system_error>

namespace ebbtide::metrics {
namespace {

std::string_view trimmed(std::string_view text) {
  const auto blank = [](char c) { return c == ' ' || c == '\t'; };
  while (!text.empty() && blank(text.front())) text.remove_prefix(1);
  while (!text.empty() && blank(text.back())) text.remove_suffix(1);
  return text;
}

// What is before the separator, which is taken out of `rest` with it.
std::string_view takeUntil(char separator, std::string_view& rest) {
  const std::size_t end = rest.find(separator);
  const std::string_view part = rest.substr(0, end);
  rest = end == std::string_view::npos ? std::string_view() : rest.substr(end + 1);
  return trimmed(part);
}

bool sameLetters(std::string_view a, std::string_view b) {
  return a.size() == b.size() && std::equal(a.begin(), a.end(), b.begin(), [](char x, char y) {
           return std::tolower(static_cast<unsigned char>(x)) ==
                  std::tolower(static_cast<unsigned char>(y));
         });
}

// 0 to 1; nothing: it is no number.
std::optional<double> quality(std::string_view text) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  const bool whole = error == std::errc() && end == text.data() + text.size();
  return whole && value >= 0 && value <= 1 ? std::optional(value) : std::nullopt;
}

}  // namespace

Format formatFor(std::string_view accept) noexcept {
  double open_metrics = 0;
  double text = 0;
  while (!accept.empty()) {
    std::string_view range = takeUntil(',', accept);
    const std::string_view type = takeUntil(';', range);
    double q = 1;
    bool ours = true;  // of a version that we write
    while (!range.empty()) {
      std::string_view value = takeUntil(';', range);
      const std::string_view key = takeUntil('=', value);
      if (sameLetters(key, "q")) q = quality(value).value_or(0);
      if (sameLetters(key, "version")) ours = value == "1.0.0" || value == "\"1.0.0\"";
    }
    if (sameLetters(type, "application/openmetrics-text")) {
      if (ours) open_metrics = std::max(open_metrics, q);
    } else if (sameLetters(type, "text/plain")) {
      text = std::max(text, q);
    }
  }
  return open_metrics > 0 && open_metrics >= text ? Format::kOpenMetrics : Format::kText;
}

const char* contentTypeOf(Format format) noexcept {
  return format == Format::kOpenMetrics
             ? "application/openmetrics-text; version=1.0.0; charset=utf-8"
             : "text/plain; version=0.0.4; charset=utf-8";
}

}  // namespace ebbtide::metrics
