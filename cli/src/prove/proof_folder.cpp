#include "prove/proof_folder.hpp"

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

std::string temporaryFolder() {
  std::error_code none;
  const fs::path parent = fs::temp_directory_path(none);
  std::string path = ((none ? fs::path("/tmp") : parent) / "ebbtide-prove-XXXXXX").native();
  if (::mkdtemp(path.data()) != nullptr) return path;
  throw std::invalid_argument(
      fmt::format("no folder can be made in {}: {}. TMPDIR names another one",
                  forTerminal(fs::path(path).parent_path().native()), std::strerror(errno)));
}

std::string usersFolder(const std::string& path) {
  std::error_code error;
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

ProofFolder::ProofFolder(const std::string& kept)
    : path_(kept.empty() ? temporaryFolder() : usersFolder(kept)), kept_(!kept.empty()) {}

ProofFolder::~ProofFolder() {
  std::error_code ignored;
  if (!kept_) fs::remove_all(path_, ignored);
}

std::string ProofFolder::makeFolderOf(const std::string& run) const {
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

}  // namespace ebbtide::cli
