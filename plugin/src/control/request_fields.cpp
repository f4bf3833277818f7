#include "control/request_fields.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace ebbtide::plugin {

using nlohmann::json;

// What the client wrote is not repeated: it may be long.
RequestFields readFields(const std::string& body, const char* required,
                         const std::vector<std::string>& others) {
  if (body.empty() && required == nullptr) return {};
  json read = json::parse(body, nullptr, /*allow_exceptions=*/false);
  if (!read.is_object()) return {.problem = "the body is no JSON object"};
  if (required != nullptr && !read.contains(required))
    return {.problem = fmt::format("the body has no \"{}\"", required)};
  for (const auto& field : read.items()) {
    const std::string& name = field.key();
    if (required != nullptr && name == required) continue;
    if (std::find(others.begin(), others.end(), name) != others.end()) continue;
    if (required == nullptr && others.empty()) return {.problem = "the body is {}, or nothing"};
    std::string known = required != nullptr ? fmt::format("\"{}\"", required) : "";
    for (const std::string& other : others)
      known += fmt::format("{}\"{}\"", known.empty() ? "" : " and ", other);
    return {.problem = "the body has more than " + known};
  }
  return {.fields = std::move(read)};
}

}  // namespace ebbtide::plugin
