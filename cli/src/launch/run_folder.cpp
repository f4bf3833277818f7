#include "launch/run_folder.hpp"

#include <fmt/format.h>
#include <stdlib.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <stdexcept>
#include <vector>

#include "terminal_text.hpp"

namespace ebbtide::cli {
namespace {

namespace fs = std::filesystem;

constexpr std::streamoff kMostRead = 1 << 16;  // bytes of a file's end
constexpr std::size_t kLinesShown = 20;

// Ranks put their number there in the names of their files.
void refuseRankIn(const std::string& path, const char* named_by) {
  if (path.find("{rank}") == std::string::npos) return;
  throw std::invalid_argument(
      fmt::format("{}: a folder with {{rank}} in its name cannot hold the runs' files, in which "
                  "{{rank}} is replaced. {} names another one",
                  forTerminal(path), named_by));
}

std::string temporaryFolder(const std::string& verb) {
  std::error_code none;
  const fs::path parent = fs::temp_directory_path(none);
  refuseRankIn(parent.native(), "TMPDIR");
  std::string path =
      ((none ? fs::path("/tmp") : parent) / ("ebbtide-" + verb + "-XXXXXX")).native();
  if (::mkdtemp(path.data()) != nullptr) return path;
  throw std::invalid_argument(
      fmt::format("no folder can be made in {}: {}. TMPDIR names another one",
                  forTerminal(fs::path(path).parent_path().native()), std::strerror(errno)));
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

RunFolder::RunFolder(const std::string& kept, const std::string& verb)
    : path_(kept.empty() ? temporaryFolder(verb) : usersFolder(kept)), kept_(!kept.empty()) {}

RunFolder::~RunFolder() {
  std::error_code ignored;
  if (!kept_) fs::remove_all(path_, ignored);
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
