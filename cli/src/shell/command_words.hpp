// Words after "--" on the command line, which are another program's: CLI11 would take one like
// "[1,2]" apart.
#pragma once

#include <string>
#include <vector>

namespace ebbtide::cli {

// Those of main(), the last one first, as CLI::App::parse() takes them. Throws
// std::invalid_argument: one is "--option=", without its value.
std::vector<std::string> guardedWords(int argc, const char* const* argv);

// As the user wrote it.
std::string unguarded(const std::string& word);

}  // namespace ebbtide::cli
