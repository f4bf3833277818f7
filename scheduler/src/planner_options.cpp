#include "planner_options.hpp"

#include <algorithm>
#include <charconv>
#include <stdexcept>

namespace ebbtide::scheduler {

void rejectUnknownOptions(const PlannerOptions& options,
                          std::initializer_list<std::string_view> known) {
  for (const auto& [name, value] : options.named) {
    if (std::find(known.begin(), known.end(), name) == known.end()) {
      throw std::invalid_argument("unknown planner option '" + name + "'");
    }
  }
}

std::int64_t integerOption(const PlannerOptions& options, const std::string& name,
                           std::int64_t otherwise) {
  const auto found = options.named.find(name);
  if (found == options.named.end()) return otherwise;
  const std::string& text = found->second;
  std::int64_t number = -1;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size() || number < 0) {
    throw std::invalid_argument("planner option '" + name + "' is not a number: '" + text + "'");
  }
  return number;
}

}  // namespace ebbtide::scheduler
