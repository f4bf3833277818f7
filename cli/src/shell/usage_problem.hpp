// What is wrong with a command line, in one line.
#pragma once

#include <CLI/App.hpp>
#include <string>

namespace ebbtide::cli {

// Of an error that parsing ended with, and is none of help: "SIZE is required; see ebbtide budget
// --help". Names the verb that a wrong one was meant for, where there is one like it.
std::string usageProblem(const CLI::App& program, const CLI::ParseError& error);

}  // namespace ebbtide::cli
