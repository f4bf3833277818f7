// SolverEngine: a solver inside the worker's process. Only `ebbtide-solver` contains one.
// To add one: a file pair with a factory, and its name in solver_main.cpp and solver_worker.cpp.
#pragma once

#include <functional>
#include <memory>
#include <string>

namespace ebbtide::scheduler {

class SolverEngine {
 public:
  // Called on any thread of the solver, never twice at once.
  using OnIncumbent = std::function<void(const std::string& bytes)>;

  virtual ~SolverEngine() = default;
  // Once. Returns the response. Throws std::exception where it cannot solve at all.
  virtual std::string solve(const std::string& model, const std::string& parameters,
                            const OnIncumbent& on_incumbent) = 0;
  // Asks solve() to return soon, on any thread, at any time.
  virtual void stop() = 0;
};

// The library's path; throws std::runtime_error where it cannot be loaded.
std::unique_ptr<SolverEngine> makeCpSatEngine(const std::string& library);
std::unique_ptr<SolverEngine> makeHighsEngine(const std::string& library);

}  // namespace ebbtide::scheduler
