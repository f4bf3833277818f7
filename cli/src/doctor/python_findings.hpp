// What a Python environment has: torch, the plugin, CUDA.
#pragma once

#include <string>

#include "doctor/finding.hpp"

namespace ebbtide::cli {

// `python`: the program; empty: that of $VIRTUAL_ENV, else python3 or python in PATH. Imports torch
// in a process of its own.
Findings pythonFindings(const std::string& python);

// From what the probe printed: its own tests need no Python.
Findings findingsFromProbe(const std::string& python, const std::string& json_text);

}  // namespace ebbtide::cli
