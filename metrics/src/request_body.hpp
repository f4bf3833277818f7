// What comes with a change, looked at before anybody acts on it.
#pragma once

#include <string>

namespace ebbtide::metrics {

// What is wrong with the body, in a sentence; "" for nothing. It finds NUL bytes, at which a parser
// may end the text. It finds a name that one object has twice: parsers differ in the value that
// they take. It does not tell whether the body is JSON: its reader does.
std::string problemOfBody(const std::string& body);

}  // namespace ebbtide::metrics
