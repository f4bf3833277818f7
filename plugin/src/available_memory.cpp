#include "available_memory.hpp"

#include <algorithm>
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

struct Names {  // of a group's files
  const char *limit, *used, *cached, *read_often;
};
constexpr Names kSecond = {"memory.max", "memory.current", "inactive_file", "active_file"};
constexpr Names kFirst = {"memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file",
                          "total_active_file"};

// The group and those that it is in: each has a limit. Where a container sees groups by names of
// the machine that are not there for it, its own is the topmost one.
Bytes leftInGroups(const fs::path& top, const fs::path& group, const Names& names) {
  Bytes left = kUnlimited;
  for (fs::path here = group.relative_path();; here = here.parent_path()) {
    const fs::path folder = top / here;
    const auto limit = numberIn(folder / names.limit);
    const auto used = numberIn(folder / names.used);
    if (limit && used) {
      // Files that are kept in memory give way, also those that are read again and again.
      const Bytes cached = numberAfter(folder / "memory.stat", names.cached).value_or(0) +
                           numberAfter(folder / "memory.stat", names.read_often).value_or(0);
      left = std::min(left, std::max<Bytes>(0, *limit - std::max<Bytes>(0, *used - cached)));
    }
    if (here.empty()) return left;
  }
}

}  // namespace

Bytes availableMemoryBytes(const fs::path& root) {
  const auto kib = numberAfter(root / "proc/meminfo", "MemAvailable:");
  Bytes left = kib ? *kib * 1024 : kUnlimited;
  std::ifstream groups(root / "proc/self/cgroup");  // "0::/job", "4:memory:/job"
  const fs::path mounted = root / "sys/fs/cgroup";
  for (std::string line; std::getline(groups, line);) {
    const std::size_t kind = line.find(':');
    const std::size_t name = line.find(':', kind + 1);
    if (kind == std::string::npos || name == std::string::npos) continue;
    const std::string controllers = "," + line.substr(kind + 1, name - kind - 1) + ",";
    const fs::path group = line.substr(name + 1);
    if (controllers == ",,") left = std::min(left, leftInGroups(mounted, group, kSecond));
    if (controllers.find(",memory,") != std::string::npos)
      left = std::min(left, leftInGroups(mounted / "memory", group, kFirst));
  }
  return left;
}

}  // namespace ebbtide::plugin
