#include "runtime/output/run_lines.hpp"

#include <fmt/format.h>

#include "base/message_table.hpp"
#include "base/said_line.hpp"
#include "runtime/planning/planning_service.hpp"

namespace ebbtide::plugin {

bool RunLines::isSilent() const {
  return ends_ && PlanningService::onThread();
}

bool RunLines::say(const std::string& text) const {
  if (isSilent()) return false;
  if (config_->log_level == "info" || config_->log_level == "debug")
    sayLine(fmt::format("[ebbtide rank {}] {}", config_->rank, withCode(text)));
  return true;
}

bool RunLines::warn(const std::string& text) const {
  if (isSilent()) return false;
  if (config_->log_level != "off" && config_->log_level != "error")
    sayLine(fmt::format("[ebbtide rank {}] warning: {}", config_->rank, withCode(text)));
  return true;
}

bool RunLines::debug(const std::string& text) const {
  if (isSilent()) return false;
  if (config_->log_level == "debug")
    sayLine(fmt::format("[ebbtide rank {}] debug: {}", config_->rank, text));
  return true;
}

}  // namespace ebbtide::plugin
