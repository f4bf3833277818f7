// What is known, as JSON; null else.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>

namespace ebbtide::plugin {

template <typename T>
nlohmann::json orNull(const std::optional<T>& value) {
  return value ? nlohmann::json(*value) : nlohmann::json();
}

inline nlohmann::json orNull(const std::string& text) {  // empty: not known
  return text.empty() ? nlohmann::json() : nlohmann::json(text);
}

}  // namespace ebbtide::plugin
