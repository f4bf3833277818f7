// In JSON a value that is not there is null, not left out.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>

namespace ebbtide::metrics {

template <typename Value>
nlohmann::json orNull(const std::optional<Value>& value) {
  return value ? nlohmann::json(*value) : nlohmann::json();
}

// An empty text is one that is not there.
inline nlohmann::json orNull(const std::string& text) {
  return text.empty() ? nlohmann::json() : nlohmann::json(text);
}

}  // namespace ebbtide::metrics
