#include "launch/run_folder.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <stdexcept>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "terminal_text.hpp"

namespace ebbtide::cli {
namespace {

namespace fs = std::filesystem;

constexpr std::streamoff kMostRead = 1 << 16;  // bytes of a file's end
constexpr std::size_t kLinesShown = 20;
constexpr std::string_view kPrefix = "ebbtide-";
constexpr char kMark[] = ".ebbtide-temporary";
constexpr int kMostRemoved = 100;  // folders of killed processes, by one start

// Ranks put their number there in the names of their files.
void refuseRankIn(const std::string& path, const char* named_by) {
  if (path.find("{rank}") == std::string::npos) return;
  throw std::invalid_argument(
      fmt::format("{}: a folder with {{rank}} in its name cannot hold the runs' files, in which "
                  "{{rank}} is replaced. {} names another one",
                  forTerminal(path), named_by));
}

std::string prefixOf(std::string_view verb) {
  return fmt::format("{}{}-", kPrefix, verb);
}

// A name alone may be the user's, and a lock of a folder is this kernel's alone: network file
// systems share none. So the folder holds a mark that names both. Empty: the kernel has no name.
std::string markOf(const fs::path& folder) {
  std::string kernel;
  std::getline(std::ifstream("/proc/sys/kernel/random/boot_id"), kernel);
  return kernel.empty() ? "" : kernel + " " + folder.filename().native();
}

bool isMarked(const fs::path& folder) {
  std::string text;
  std::getline(std::ifstream(folder / kMark), text);
  return !text.empty() && text == markOf(folder);
}

// Who made a folder holds its lock while it lives, and so does the guard of its run. True: it was
// nobody's any more.
bool removeUnlessLocked(const fs::path& folder) {
  const int lock = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  if (lock < 0) return false;
  struct stat status = {};
  const bool dead = ::fstat(lock, &status) == 0 && status.st_uid == ::geteuid() &&
                    isMarked(folder) && ::flock(lock, LOCK_EX | LOCK_NB) == 0;
  if (dead) {
    std::error_code ignored;
    fs::remove_all(folder, ignored);
  }
  ::close(lock);
  return dead;
}

void removeDeadFolders(const fs::path& parent) try {
  int removed = 0;
  for (const auto& entry : fs::directory_iterator(parent)) {
    if (!entry.path().filename().native().starts_with(kPrefix)) continue;
    if (removeUnlessLocked(entry.path()) && ++removed == kMostRemoved) return;
  }
} catch (const std::exception&) {  // they are left there
}

// With its lock; -1: it has none, and no mark, so that nobody removes it but its owner.
std::pair<std::string, int> temporaryFolder(const std::string& verb) {
  std::error_code none;
  fs::path parent = fs::temp_directory_path(none);
  refuseRankIn(parent.native(), "TMPDIR");
  if (none) parent = "/tmp";
  removeDeadFolders(parent);
  std::string path = (parent / (prefixOf(verb) + "XXXXXX")).native();
  if (::mkdtemp(path.data()) == nullptr) {
    throw std::invalid_argument(
        fmt::format("no folder can be made in {}: {}. TMPDIR names another one",
                    forTerminal(parent.native()), std::strerror(errno)));
  }
  int lock = ::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (lock >= 0 && ::flock(lock, LOCK_EX | LOCK_NB) != 0) ::close(std::exchange(lock, -1));
  if (lock >= 0) std::ofstream(fs::path(path) / kMark) << markOf(path) << '\n';
  return {path, lock};
}

std::string usersFolder(const std::string& path) {
  std::error_code error;
  refuseRankIn(fs::absolute(path).native(), "--keep");
  fs::create_directories(path, error);
  if (!error && !fs::is_empty(path, error) && !error) {
    throw std::invalid_argument(
        fmt::format("--keep {}: the folder has files already; name a new one", forTerminal(path)));
  }
  if (error) {
    throw std::invalid_argument(fmt::format("--keep {}: {}", forTerminal(path), error.message()));
  }
  return fs::canonical(path).native();
}

}  // namespace

RunFolder::RunFolder(const std::string& kept, const std::string& verb) : kept_(!kept.empty()) {
  if (kept_) {
    path_ = usersFolder(kept);
  } else {
    std::tie(path_, lock_) = temporaryFolder(verb);
  }
}

RunFolder::~RunFolder() {
  std::error_code ignored;
  if (!kept_) fs::remove_all(path_, ignored);
  if (lock_ >= 0) ::close(lock_);
}

std::string RunFolder::makeFolderOf(const std::string& run) const {
  std::string path = path_ + "/" + run;
  fs::create_directory(path);
  return path;
}

std::string lastLines(const std::string& path, std::size_t most) {
  std::ifstream file(path, std::ios::ate | std::ios::binary);
  if (!file) return "";
  file.seekg(std::max<std::streamoff>(0, static_cast<std::streamoff>(file.tellg()) - kMostRead));
  std::vector<std::string> lines;
  for (std::string line; std::getline(file, line);) lines.push_back(forTerminal(line));
  std::string text;
  const std::size_t left_out = lines.size() - std::min(most, lines.size());
  for (std::size_t i = left_out; i < lines.size(); ++i) text += lines[i] + '\n';
  return text;
}

void printOutput(const std::string& output, const std::string& run, const std::string& ended,
                 const RunFolder& folder) {
  const std::string lines = lastLines(output, kLinesShown);
  fmt::print(stderr, "{}", lines);
  fmt::print(
      stderr, "ebbtide: the {} run {}. {}; {}\n", run, ended,
      lines.empty() ? "It printed nothing" : "Above are its last lines",
      folder.isKept() ? "the whole output: " + output : "--keep FOLDER keeps the whole output");
}

}  // namespace ebbtide::cli
