// SolverWheel: the libraries of CP-SAT and HiGHS, from the Python package that ships both.
#pragma once

#include <filesystem>
#include <string>

#include "ebbtide/scheduler/planner.hpp"

namespace ebbtide::scheduler {

struct SolverWheel {
  // The C interfaces and the wire format are those of this version.
  static constexpr const char* kVersion = "9.15.6755";

  std::filesystem::path cp_sat;  // libortools.so.9
  std::filesystem::path highs;   // libhighs.so.1
};

// The option `ortools`: the folder that holds `ortools` (site-packages).
PlannerOption wheelOption();

// That folder if the option is given. Else the first of: folders above this program or library, or
// the site-packages of a .venv in one of them; the site-packages of $VIRTUAL_ENV. Throws
// std::invalid_argument that says how to get the wheel.
SolverWheel findSolverWheel(const PlannerOptions& options);

// A fault of the wheel's libraries and how to get good ones, in one sentence.
std::string solverFault(const std::string& what);

// `ebbtide-solver`, beside this program or library or in the folder bin next to its own. Throws
// std::runtime_error where it is not.
std::filesystem::path findSolverProgram();

}  // namespace ebbtide::scheduler
