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

// False when it is none: no leading '/', an escape that is not %XX, a control character, a name of
// the query twice; then `why` says so in one sentence. Dots in a path mean nothing: no file is
// opened by its name.
bool parseTarget(std::string_view text, RequestTarget& target, std::string& why);

// For a query: escapes all but A-Z a-z 0-9 - . _ ~
std::string percentEncoded(std::string_view text);

}  // namespace ebbtide::metrics
