// ebbtide: sees and tunes running jobs; plans recorded steps and the papers' graphs, without torch.
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <exception>
#include <new>
#include <stdexcept>
#include <string>

#include "live/running_job.hpp"
#include "shell/command_words.hpp"
#include "shell/usage_problem.hpp"
#include "verbs.hpp"

namespace {

using namespace ebbtide::cli;

int failed(int exit_code, const char* what) {
  std::fprintf(stderr, "ebbtide: %s\n", what);
  return exit_code;
}

int run(int argc, char** argv) {
  int exit_code = kFeasible;
  const auto app = makeProgram(exit_code);
  try {
    app->parse(guardedWords(argc, argv));
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() != 0) return failed(kBadInput, usageProblem(*app, error).c_str());
    app->exit(error);  // prints the help that was asked for
    return kFeasible;
  }
  return exit_code;
}

// A full disk may show only now.
void endOutput() {
  if (std::fflush(stdout) == 0) return;
  throw std::runtime_error(std::string("cannot write to stdout: ") + std::strerror(errno));
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
