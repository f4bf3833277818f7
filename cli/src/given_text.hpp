// Options whose text may not be empty: "" is a variable that a script forgot to set.
#pragma once

#include <CLI/App.hpp>
#include <string>

namespace ebbtide::cli {

inline CLI::Validator givenText() {
  return {[](const std::string& text) { return std::string(text.empty() ? "is empty" : ""); }, ""};
}

}  // namespace ebbtide::cli
