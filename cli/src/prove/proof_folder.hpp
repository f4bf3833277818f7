// ProofFolder: what the runs of one proof write, a folder a run. Gone at the end unless the user
// named it.
#pragma once

#include <string>

namespace ebbtide::cli {

class ProofFolder {
 public:
  // `kept`: the user's folder, made if it is missing, else empty; "": a temporary one. Throws
  // std::invalid_argument: it has files, or cannot be made.
  explicit ProofFolder(const std::string& kept);
  ~ProofFolder();
  ProofFolder(const ProofFolder&) = delete;
  ProofFolder& operator=(const ProofFolder&) = delete;

  const std::string& path() const { return path_; }
  bool isKept() const { return kept_; }
  std::string makeFolderOf(const std::string& run) const;

 private:
  std::string path_;  // absolute: programs change theirs
  bool kept_;
};

// At most so many, made fit for a terminal.
std::string lastLines(const std::string& path, std::size_t most);

}  // namespace ebbtide::cli
