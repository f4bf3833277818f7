// Format: what text a scraper asks for.
#pragma once

#include <cstdint>
#include <string_view>

namespace ebbtide::metrics {

enum class Format : std::uint8_t {
  kText,         // Prometheus 0.0.4
  kOpenMetrics,  // 1.0.0
};

// By the Accept header of a request: OpenMetrics where it is named and not valued less than text.
// What cannot be parsed counts as not there.
Format formatFor(std::string_view accept) noexcept;
const char* contentTypeOf(Format format) noexcept;

}  // namespace ebbtide::metrics
