#include "checked_json.hpp"

#include <cmath>

namespace ebbtide::cli {
namespace {

constexpr int kDeepest = 32;

}  // namespace

std::optional<nlohmann::json> parseChecked(const std::string& text) {
  bool too_deep = false;
  const auto watch = [&](int depth, nlohmann::json::parse_event_t, nlohmann::json&) {
    too_deep = too_deep || depth > kDeepest;
    return !too_deep;  // what is deeper is not kept
  };
  nlohmann::json tree = nlohmann::json::parse(text, watch, false);
  if (too_deep || tree.is_discarded()) return std::nullopt;
  return tree;
}

const nlohmann::json& at(const nlohmann::json& tree, std::initializer_list<const char*> keys) {
  static const nlohmann::json null;
  const nlohmann::json* found = &tree;
  for (const char* key : keys) {
    if (!found->is_object()) return null;
    const auto next = found->find(key);
    if (next == found->end()) return null;
    found = &*next;
  }
  return *found;
}

std::optional<std::int64_t> integerAt(const nlohmann::json& tree,
                                      std::initializer_list<const char*> keys) {
  const nlohmann::json& value = at(tree, keys);
  if (value.is_number_unsigned() && value.get<std::uint64_t>() > INT64_MAX) return INT64_MAX;
  if (value.is_number_integer()) return value.get<std::int64_t>();
  return std::nullopt;
}

std::optional<double> numberAt(const nlohmann::json& tree,
                               std::initializer_list<const char*> keys) {
  const nlohmann::json& value = at(tree, keys);
  if (!value.is_number()) return std::nullopt;
  const auto number = value.get<double>();
  return std::isfinite(number) ? std::optional(number) : std::nullopt;
}

std::string textAt(const nlohmann::json& tree, std::initializer_list<const char*> keys) {
  const nlohmann::json& value = at(tree, keys);
  return value.is_string() ? value.get<std::string>() : "";
}

std::vector<double> numbersAt(const nlohmann::json& tree, std::initializer_list<const char*> keys) {
  std::vector<double> numbers;
  const nlohmann::json& list = at(tree, keys);
  if (!list.is_array()) return numbers;
  numbers.reserve(list.size());
  for (const nlohmann::json& value : list) {
    if (value.is_number() && std::isfinite(value.get<double>())) numbers.push_back(value);
  }
  return numbers;
}

}  // namespace ebbtide::cli
