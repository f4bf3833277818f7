// What a Python environment has: torch, the plugin, CUDA.
#pragma once

#include <filesystem>
#include <string>

#include "doctor/finding.hpp"

namespace ebbtide::cli {

struct PythonFacts {
  Findings findings;
  std::string site_packages;  // where its ortools is, or would be; empty: not known
};

// A Python, and why it is this one: "named by --python".
struct ChosenPython {
  std::string program, why;
};

// The Python of the environment that a wheel put `program` into; empty for any other program.
std::string pythonAround(const std::filesystem::path& program);

// `named`, else the one around this program, else that of $VIRTUAL_ENV, else that of
// `folder`/.venv; else no program: the first one in PATH.
ChosenPython choosePython(const std::string& named, const std::string& folder);

// `named` as above, with the folder that this process is in. Imports torch in a process of its own.
PythonFacts pythonFindings(const std::string& named);

// From what the probe printed: its own tests need no Python.
PythonFacts factsFromProbe(const ChosenPython& python, const std::string& json_text);

}  // namespace ebbtide::cli
