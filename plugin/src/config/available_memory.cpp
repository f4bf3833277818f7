#include "config/available_memory.hpp"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <fstream>
#include <limits>
#include <optional>
#include <sstream>
#include <string>

namespace ebbtide::plugin {
namespace {

namespace fs = std::filesystem;
using Bytes = std::int64_t;

constexpr Bytes kUnlimited = std::numeric_limits<Bytes>::max();

// The number after that word, at the beginning of a line.
std::optional<Bytes> numberAfter(const fs::path& path, const std::string& word) {
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    std::istringstream words(line);
    std::string first;
    Bytes number = 0;
    if (words >> first >> number && first == word) return number;
  }
  return std::nullopt;
}

// Nothing: there is no such file, or it says "max".
std::optional<Bytes> numberIn(const fs::path& path) {
  std::ifstream file(path);
  Bytes number = 0;
  return file >> number ? std::optional(number) : std::nullopt;
}

// What is left without that share of all.
Bytes lessShare(Bytes left, Bytes all, double share) {
  return std::max<Bytes>(0, left - static_cast<Bytes>(share * static_cast<double>(all)));
}

struct Names {  // of a group's files; high: over it the kernel throttles the group, nullptr: none
  const char *limit, *high, *used, *cached, *read_often;
};
constexpr Names kSecond = {"memory.max", "memory.high", "memory.current", "inactive_file",
                           "active_file"};
constexpr Names kFirst = {"memory.limit_in_bytes", nullptr, "memory.usage_in_bytes",
                          "total_inactive_file", "total_active_file"};

// Nothing: the group has none.
std::optional<Bytes> limitIn(const fs::path& folder, const Names& names) {
  const auto limit = numberIn(folder / names.limit);
  const auto high = names.high != nullptr ? numberIn(folder / names.high) : std::nullopt;
  return limit && high ? std::min(limit, high) : limit ? limit : high;
}

// Nothing: the group has no limit, or its use is not known.
std::optional<Bytes> leftIn(const fs::path& folder, const Names& names, double free_share) {
  const auto limit = limitIn(folder, names);
  const auto used = numberIn(folder / names.used);
  if (!limit || !used) return std::nullopt;
  // Files that are kept in memory give way, also those that are read again and again.
  const Bytes cached = numberAfter(folder / "memory.stat", names.cached).value_or(0) +
                       numberAfter(folder / "memory.stat", names.read_often).value_or(0);
  return lessShare(*limit - std::max<Bytes>(0, *used - cached), *limit, free_share);
}

// The least of what `figure` (of a folder, with its files' names) gives for the groups of this
// process and those that they are in: each has a limit. Where a container sees groups by names of
// the machine that are not there for it, its own is the topmost one.
template <typename Figure>
std::optional<Bytes> leastOfGroups(const fs::path& root, const Figure& figure) {
  std::optional<Bytes> least;
  const auto look = [&](const fs::path& top, const fs::path& group, const Names& names) {
    for (fs::path here = group.relative_path();; here = here.parent_path()) {
      const std::optional<Bytes> bytes = figure(top / here, names);
      if (bytes) least = std::min(least.value_or(*bytes), *bytes);
      if (here.empty()) return;
    }
  };
  std::ifstream groups(root / "proc/self/cgroup");  // "0::/job", "4:memory:/job"
  const fs::path mounted = root / "sys/fs/cgroup";
  for (std::string line; std::getline(groups, line);) {
    const std::size_t kind = line.find(':');
    const std::size_t name = line.find(':', kind + 1);
    if (kind == std::string::npos || name == std::string::npos) continue;
    const std::string controllers = "," + line.substr(kind + 1, name - kind - 1) + ",";
    const fs::path group = line.substr(name + 1);
    if (controllers == ",,") look(mounted, group, kSecond);
    if (controllers.find(",memory,") != std::string::npos) look(mounted / "memory", group, kFirst);
  }
  return least;
}

// Bytes in memory, in whole pages. Where the kernel does not tell, all pages count.
Bytes residentBytes(const std::byte* begin, const std::byte* end) {
  const Bytes page_bytes = ::sysconf(_SC_PAGE_SIZE);
  std::array<unsigned char, 4096> pages{};
  const Bytes before = static_cast<Bytes>(reinterpret_cast<std::uintptr_t>(begin)) % page_bytes;
  Bytes resident = 0;
  for (const std::byte* at = begin - before; at < end;) {
    const auto count = std::min<Bytes>(std::ssize(pages), (end - at + page_bytes - 1) / page_bytes);
    const auto bytes = static_cast<std::size_t>(count * page_bytes);
    // It asks for an address that may be written, and writes to none.
    if (::mincore(const_cast<std::byte*>(at), bytes, pages.data()) != 0) pages.fill(1);
    resident += std::count_if(pages.begin(), pages.begin() + count,
                              [](unsigned char page) { return (page & 1) != 0; });
    at += bytes;
  }
  return resident * page_bytes;
}

}  // namespace

Bytes availableMemoryBytes(double free_share, const fs::path& root) {
  const fs::path machine = root / "proc/meminfo";
  const auto left_kib = numberAfter(machine, "MemAvailable:");
  const Bytes all = numberAfter(machine, "MemTotal:").value_or(0) * 1024;
  const Bytes left = left_kib ? lessShare(*left_kib * 1024, all, free_share) : kUnlimited;
  const auto in_groups = leastOfGroups(root, [&](const fs::path& folder, const Names& names) {
    return leftIn(folder, names, free_share);
  });
  return std::min(left, in_groups.value_or(kUnlimited));
}

Bytes residentBytes(const allocator::MappedExtents& extents) {
  Bytes resident = 0;
  for (auto next = extents.begin(); next != extents.end();) {
    const std::byte* const begin = next->begin;
    const std::byte* end = begin;
    for (; next != extents.end() && next->begin == end; ++next) end += next->bytes;
    resident += residentBytes(begin, end);
  }
  return resident;
}

std::optional<Bytes> residentAnonymousBytes(const fs::path& root) {
  std::ifstream file(root / "proc/self/statm");
  Bytes size = 0, resident = 0, shared = 0;  // pages
  if (!(file >> size >> resident >> shared)) return std::nullopt;
  return std::max<Bytes>(0, resident - shared) * ::sysconf(_SC_PAGE_SIZE);
}

std::optional<Bytes> groupLimitBytes(const fs::path& root) {
  return leastOfGroups(root, &limitIn);
}

}  // namespace ebbtide::plugin
