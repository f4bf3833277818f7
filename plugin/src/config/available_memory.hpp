// What a process of this machine may take of its memory at all, and can still take. Torch-free.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>

#include "ebbtide/allocator/mapped_extent.hpp"

namespace ebbtide::plugin {

// Of the machine and of each limit: what a rank leaves free that takes all it can have.
constexpr double kFreeShare = 0.05;

// As the system tells it, and no more than the control groups of this process have left (a
// container's limit, a job's; of v2 the smaller one of memory.max and memory.high). Pages of files
// that are merely cached can be taken, swap is not counted. `free_share`: of the machine and of
// each limit, what is not to be taken. `root`: of the file system; tests give another one.
std::int64_t availableMemoryBytes(double free_share = 0, const std::filesystem::path& root = "/");

// Of this process, what is in memory and no file's. Nothing: it is not known.
std::optional<std::int64_t> residentAnonymousBytes(const std::filesystem::path& root = "/");

// Of mapped memory, in the order of addresses, what is in memory: pages that were never touched, or
// that are swapped out, are not.
std::int64_t residentBytes(const allocator::MappedExtents& extents);

// The lowest such limit of the control groups (v1, v2) that this process is in, those above its own
// included. Nothing: none has one.
std::optional<std::int64_t> groupLimitBytes(const std::filesystem::path& root = "/");

}  // namespace ebbtide::plugin
