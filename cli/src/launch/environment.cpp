#include "launch/environment.hpp"

extern char** environ;  // NOLINT: POSIX names it so

namespace ebbtide::cli {

Environment ownEnvironment() {
  Environment own;
  for (char** at = environ; *at != nullptr; ++at) own.emplace_back(*at);
  return own;
}

std::string valueOf(const Environment& environment, const std::string& name) {
  for (const std::string& entry : environment) {
    if (entry.starts_with(name + "=")) return entry.substr(name.size() + 1);
  }
  return "";
}

void set(Environment& environment, const std::string& name, const std::string& value) {
  unset(environment, name);
  environment.push_back(name + "=" + value);
}

void unset(Environment& environment, const std::string& name) {
  std::erase_if(environment,
                [&](const std::string& entry) { return entry.starts_with(name + "="); });
}

}  // namespace ebbtide::cli
