#include "model/planner_options.hpp"

#include <algorithm>
#include <charconv>
#include <stdexcept>

namespace ebbtide::scheduler {

PlannerOption workOption() {
  return {"work", std::to_string(kDefaultSearchWork),
          "schedule steps that the local search may simulate; 0: none"};
}

void rejectUnknownOptions(const PlannerOptions& options, const PlannerInfo& info) {
  for (const auto& [name, value] : options.named) {
    const bool known =
        std::any_of(info.options.begin(), info.options.end(),
                    [&name = name](const PlannerOption& option) { return option.name == name; });
    if (known) continue;
    std::string list;
    for (const PlannerOption& option : info.options) list += " " + option.name;
    throw std::invalid_argument("unknown planner option '" + name + "'; " + info.name +
                                (list.empty() ? " has none" : " has:" + list));
  }
}

std::string choiceOption(const PlannerOptions& options, const std::string& name,
                         std::initializer_list<std::string_view> allowed,
                         const std::string& otherwise) {
  const auto found = options.named.find(name);
  if (found == options.named.end()) return otherwise;
  if (std::find(allowed.begin(), allowed.end(), found->second) != allowed.end())
    return found->second;
  std::string list;
  for (const std::string_view one : allowed) list += (list.empty() ? "" : ", ") + std::string(one);
  throw std::invalid_argument("planner option '" + name + "' is '" + found->second +
                              "', but may be: " + list);
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
