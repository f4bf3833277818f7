// The help of verbs, in the words of the manual.
#pragma once

#include <CLI/App.hpp>
#include <memory>

namespace ebbtide::cli {

// Says of an option what it takes and what holds without it; CLI11's own also says how it is
// checked, and each of its relations to others.
std::shared_ptr<CLI::Formatter> helpText();

}  // namespace ebbtide::cli
