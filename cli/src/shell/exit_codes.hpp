// The exit codes, a part of the command line's contract: the same for all verbs. All but 0 and 3
// come with a message on stderr.
#pragma once

#include <array>
#include <utility>

namespace ebbtide::cli {

enum ExitCode : int {
  kFeasible = 0,
  kFailure = 1,
  kBadInput = 2,
  kInfeasible = 3,
  kNoRun = 4,
  kRefused = 5,
};

// In words, for the manual, the help and the tests.
inline constexpr std::array<std::pair<int, const char*>, 6> kExitCodes = {{
    {kFeasible, "done; a plan or a schedule fits its budget"},
    {kFailure,
     "a failure of ours, no memory left, output that could not be written; of doctor: "
     "something does not work; of fit: nothing was measured; of prove: not identical, or not "
     "judged"},
    {kBadInput, "bad input: an argument, a file, a schedule that is not legal"},
    {kInfeasible, "the budget cannot be met"},
    {kNoRun, "no such run, or a rank does not answer"},
    {kRefused, "the run refused what was asked, or cannot do it"},
}};

}  // namespace ebbtide::cli
