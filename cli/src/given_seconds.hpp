// Options that take a time. CLI::Range would let "nan" pass.
#pragma once

#include <fmt/format.h>

#include <CLI/App.hpp>
#include <cstdlib>
#include <string>

namespace ebbtide::cli {

inline CLI::Validator givenSeconds(double least, double most) {
  return {[=](const std::string& text) {
            char* end = nullptr;
            const double seconds = std::strtod(text.c_str(), &end);
            const bool number = end != text.c_str() && *end == '\0';
            return number && seconds >= least && seconds <= most
                       ? std::string()
                       : fmt::format("'{}' is not {} to {} seconds", text, least, most);
          },
          ""};
}

}  // namespace ebbtide::cli
