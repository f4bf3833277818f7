// ebbtide: plans on recorded steps and the papers' graphs, without torch.
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <exception>
#include <new>
#include <stdexcept>
#include <string>

#include "verbs.hpp"

namespace {

using namespace ebbtide::cli;

int run(int argc, char** argv) {
  CLI::App app{"Rematerialization plans for recorded training steps"};
  app.set_version_flag("--version", EBBTIDE_VERSION);
  app.require_subcommand(1);
  int exit_code = kFeasible;
  addPlanners(app, exit_code);
  addPlan(app, exit_code);
  addCheck(app, exit_code);
  addCurve(app, exit_code);
  addPlace(app, exit_code);
  addSimulate(app, exit_code);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? kFeasible : kBadInput;  // 0: help was asked for
  }
  return exit_code;
}

// A full disk may show only now.
void endOutput() {
  if (std::fflush(stdout) == 0) return;
  throw std::runtime_error(std::string("cannot write to stdout: ") + std::strerror(errno));
}

int failed(int exit_code, const char* what) {
  std::fprintf(stderr, "ebbtide: %s\n", what);
  return exit_code;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    const int exit_code = run(argc, argv);
    endOutput();
    return exit_code;
  } catch (const std::invalid_argument& error) {
    return failed(kBadInput, error.what());
  } catch (const std::bad_alloc&) {
    return failed(kFailure, "out of memory");
  } catch (const std::exception& error) {
    return failed(kFailure, error.what());
  }
}
