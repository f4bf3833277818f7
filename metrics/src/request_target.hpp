// What stands between method and version of a request's first line.
#pragma once

#include <map>
#include <string>
#include <string_view>

namespace ebbtide::metrics {

struct RequestTarget {
  std::string path;                          // decoded
  std::map<std::string, std::string> query;  // decoded; '+' is a space
};

struct RequestTargetResult {
  RequestTarget target = {};
  std::string problem = {};  // not empty: why it is none, in one sentence
};

// Refuses a text without a leading '/', an escape that is not %XX, a control character, and a query
// name that comes twice. Dots in a path mean nothing: no file is opened by its name.
RequestTargetResult parseTarget(std::string_view text);

// For a query: escapes all but A-Z a-z 0-9 - . _ ~
std::string percentEncoded(std::string_view text);

}  // namespace ebbtide::metrics
