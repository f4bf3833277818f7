#include "launch/run_folder.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
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
constexpr std::array<const char*, 2> kVerbs = {"fit", "prove"};
constexpr int kMostFolders = 100;  // of killed processes that a start looks at
constexpr int kMostAttempts = 10;

// Ranks put their number there in the names of their files.
void refuseRankIn(const std::string& path, const char* named_by) {
  if (path.find("{rank}") == std::string::npos) return;
  throw std::invalid_argument(
      fmt::format("{}: a folder with {{rank}} in its name cannot hold the runs' files, in which "
                  "{{rank}} is replaced. {} names another one",
                  forTerminal(path), named_by));
}

std::string prefixOf(std::string_view verb) {
  return fmt::format("ebbtide-{}-", verb);
}

bool isTemporaryName(const std::string& name) {
  return std::any_of(kVerbs.begin(), kVerbs.end(),
                     [&](const char* verb) { return name.starts_with(prefixOf(verb)); });
}

// Whose folder it is holds the lock while it lives, and so does the guard of its run. A file system
// without locks is taken as locked.
void removeUnlessLocked(const fs::path& folder) {
  const int lock = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  if (lock < 0) return;
  struct stat status {};
  if (::fstat(lock, &status) == 0 && status.st_uid == ::geteuid() &&
      ::flock(lock, LOCK_EX | LOCK_NB) == 0) {
    std::error_code ignored;
    fs::remove_all(folder, ignored);
  }
  ::close(lock);
}

void removeDeadFolders(const fs::path& parent) try {
  int looked_at = 0;
  for (const auto& entry : fs::directory_iterator(parent)) {
    if (!isTemporaryName(entry.path().filename().native())) continue;
    if (++looked_at > kMostFolders) break;
    removeUnlessLocked(entry.path());
  }
} catch (const std::exception&) {  // they are left there
}

// -1: it cannot be locked, and nobody else can. Waits for who looks whether its owner is dead.
int lockOf(const std::string& folder) {
  const int lock = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  while (::flock(lock, LOCK_EX) != 0) {
    if (errno == EINTR) continue;
    if (lock >= 0) ::close(lock);
    return -1;
  }
  return lock;
}

// With its lock. One that was taken for a dead one's before it was locked is gone: another is made.
std::pair<std::string, int> temporaryFolder(const std::string& verb) {
  std::error_code none;
  fs::path parent = fs::temp_directory_path(none);
  refuseRankIn(parent.native(), "TMPDIR");
  if (none) parent = "/tmp";
  removeDeadFolders(parent);
  const fs::path pattern = parent / (prefixOf(verb) + "XXXXXX");
  int error = EBUSY;
  for (int attempt = 0; attempt < kMostAttempts; ++attempt) {
    std::string path = pattern.native();
    if (::mkdtemp(path.data()) == nullptr) {
      error = errno;
      break;
    }
    const int lock = lockOf(path);
    if (::access(path.c_str(), F_OK) == 0) return {path, lock};
    if (lock >= 0) ::close(lock);
  }
  throw std::invalid_argument(
      fmt::format("no folder can be made in {}: {}. TMPDIR names another one",
                  forTerminal(pattern.parent_path().native()), std::strerror(error)));
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
  fmt::print(stderr, "{}", lastLines(output, kLinesShown));
  fmt::print(
      stderr, "ebbtide: the {} run {}. Above are its last lines; {}\n", run, ended,
      folder.isKept() ? "the whole output: " + output : "--keep FOLDER keeps the whole output");
}

}  // namespace ebbtide::cli
