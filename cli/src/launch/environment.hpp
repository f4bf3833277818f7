// Environment: the variables of a program that is to be started: entries "NAME=value".
#pragma once

#include <string>
#include <vector>

namespace ebbtide::cli {

using Environment = std::vector<std::string>;

Environment ownEnvironment();
std::string valueOf(const Environment& environment, const std::string& name);  // "": not there
void set(Environment& environment, const std::string& name, const std::string& value);
void unset(Environment& environment, const std::string& name);

}  // namespace ebbtide::cli
