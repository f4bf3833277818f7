// JSON that nobody vouches for (a server's answer, a file): read with checked types, nothing
// thrown.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

namespace ebbtide::cli {

// Nothing where the text is no JSON, or nested deeper than any answer of ours.
std::optional<nlohmann::json> parseChecked(const std::string& text);

// The value at the keys, one inside the other; null where there is none.
const nlohmann::json& at(const nlohmann::json& tree, std::initializer_list<const char*> keys);

// Nothing where there is no such key, or another type there.
std::optional<std::int64_t> integerAt(const nlohmann::json& tree,
                                      std::initializer_list<const char*> keys);
std::optional<double> numberAt(const nlohmann::json& tree, std::initializer_list<const char*> keys);
std::string textAt(const nlohmann::json& tree, std::initializer_list<const char*> keys);
// What is no number is left out.
std::vector<double> numbersAt(const nlohmann::json& tree, std::initializer_list<const char*> keys);

}  // namespace ebbtide::cli
