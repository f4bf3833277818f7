#include "ebbtide/scheduler/schedule.hpp"

#include <array>
#include <limits>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string_view>

#include "base/json_text.hpp"

namespace ebbtide::scheduler {
namespace {

constexpr std::string_view kFormat = "ebbtide-schedule-1";
constexpr std::array<std::string_view, 4> kKindNames = {"run", "drop", "offload", "fetch"};

Step stepFromJson(const nlohmann::json& item, const std::string& where) {
  if (!item.is_array() || item.size() != 2 || !item[0].is_string() ||
      !item[1].is_number_integer()) {
    throw std::invalid_argument(where + ": expected [kind, id]");
  }
  const auto& name = item[0].get_ref<const std::string&>();
  Step step;
  std::size_t kind = 0;
  while (kind < kKindNames.size() && kKindNames[kind] != name) ++kind;
  if (kind == kKindNames.size()) {
    throw std::invalid_argument(where + ": unknown kind '" + name + "'");
  }
  step.kind = static_cast<Step::Kind>(kind);
  const bool too_large = item[1].is_number_unsigned() &&
                         item[1].get<std::uint64_t>() > std::numeric_limits<std::int32_t>::max();
  if (too_large || item[1].get<std::int64_t>() < 0) {
    throw std::invalid_argument(where + ": id out of range");
  }
  step.id = item[1].get<std::int32_t>();
  return step;
}

}  // namespace

std::string toJson(const Schedule& schedule) {
  // Written by hand: one line, and a large schedule needs no tree of small objects.
  std::string text = "{\"format\":\"" + std::string(kFormat) + "\",\"steps\":[";
  for (std::size_t i = 0; i < schedule.steps.size(); ++i) {
    const Step& step = schedule.steps[i];
    if (i > 0) text += ',';
    text += "[\"";
    text += kKindNames[static_cast<std::size_t>(step.kind)];
    text += "\"," + std::to_string(step.id) + "]";
  }
  return text + "]}";
}

Schedule scheduleFromJson(const std::string& text) {
  const nlohmann::json root = parseJson(text, "schedule");
  if (!root.is_object()) throw std::invalid_argument("schedule: expected an object");
  for (const auto& [key, value] : root.items()) {
    if (key != "format" && key != "steps") {
      throw std::invalid_argument("schedule: unknown key '" + key + "'");
    }
  }
  if (!root.contains("format") || root["format"] != kFormat) {
    throw std::invalid_argument("schedule: format is not '" + std::string(kFormat) + "'");
  }
  if (!root.contains("steps") || !root["steps"].is_array()) {
    throw std::invalid_argument("schedule: 'steps' is not an array");
  }
  Schedule schedule;
  schedule.steps.reserve(root["steps"].size());
  for (const auto& item : root["steps"]) {
    schedule.steps.push_back(
        stepFromJson(item, "schedule: step " + std::to_string(schedule.steps.size())));
  }
  return schedule;
}

}  // namespace ebbtide::scheduler
