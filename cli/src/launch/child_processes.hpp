// The children of this process, also those that it took over from children that ended
// (PR_SET_CHILD_SUBREAPER).
#pragma once

#include <sys/types.h>

#include <vector>

namespace ebbtide::cli {

std::vector<pid_t> childProcesses();  // those that ended and were not waited for, too

// Asks all to end, and kills those that do not within six seconds. Their own children follow. A
// process that the kernel cannot end is given up.
void endChildProcesses();

}  // namespace ebbtide::cli
