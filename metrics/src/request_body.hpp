// What comes with a change, looked at before anybody acts on it.
#pragma once

#include <string>

namespace ebbtide::metrics {

// What is wrong in a sentence, "" for nothing: a NUL byte, where a parser may take the text for
// over, and a name that one object has twice, of which each parser takes another one. Whether it
// is JSON at all is for who reads it.
std::string problemOfBody(const std::string& body);

}  // namespace ebbtide::metrics
