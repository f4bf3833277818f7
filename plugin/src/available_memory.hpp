// What a process of this machine can still take of its memory. Torch-free.
#pragma once

#include <cstdint>
#include <filesystem>

namespace ebbtide::plugin {

// As the system tells it, and no more than the control groups of this process have left (a
// container's limit, a job's). Pages of files that are merely cached can be taken, swap is not
// counted. `root`: of the file system; tests give another one.
std::int64_t availableMemoryBytes(const std::filesystem::path& root = "/");

}  // namespace ebbtide::plugin
