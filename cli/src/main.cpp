// ebbtide: sees and tunes running jobs; plans recorded steps and the papers' graphs, without torch.
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <exception>
#include <new>
#include <stdexcept>
#include <string>

#include "live/running_job.hpp"
#include "program.hpp"
#include "verbs.hpp"

namespace {

using namespace ebbtide::cli;

int run(int argc, char** argv) {
  int exit_code = kFeasible;
  const auto app = makeProgram(exit_code);
  try {
    app->parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app->exit(error) == 0 ? kFeasible : kBadInput;  // 0: help was asked for
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
  } catch (const NoRun& error) {
    return failed(kNoRun, error.what());
  } catch (const std::invalid_argument& error) {
    return failed(kBadInput, error.what());
  } catch (const std::bad_alloc&) {
    return failed(kFailure, "out of memory");
  } catch (const std::exception& error) {
    return failed(kFailure, error.what());
  }
}
