// The program's whole tree of verbs and options: what is parsed, completed and described.
#pragma once

#include <CLI/App.hpp>
#include <memory>

namespace ebbtide::cli {

// Parsing runs the verb, which sets `exit_code`.
std::unique_ptr<CLI::App> makeProgram(int& exit_code);

}  // namespace ebbtide::cli
