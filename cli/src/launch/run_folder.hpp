// RunFolder: what the runs of a command write, a folder a run. Gone at the end unless the user
// named it; that of a process which was killed, at the next start.
#pragma once

#include <string>

namespace ebbtide::cli {

class RunFolder {
 public:
  // `kept`: the user's folder, made if it is missing, else empty; "": a temporary one with the
  // verb in its name, locked (flock) as long as a process that has it lives. Throws
  // std::invalid_argument: it has files, or cannot be made.
  RunFolder(const std::string& kept, const std::string& verb);
  ~RunFolder();
  RunFolder(const RunFolder&) = delete;
  RunFolder& operator=(const RunFolder&) = delete;

  const std::string& path() const { return path_; }
  bool isKept() const { return kept_; }
  std::string makeFolderOf(const std::string& run) const;

 private:
  std::string path_;  // absolute: programs change theirs
  bool kept_;
  int lock_ = -1;  // -1: none. Children have it until they become other programs
};

// At most so many, made fit for a terminal.
std::string lastLines(const std::string& path, std::size_t most);

// On stderr the end of what a run said, that it "ended with exit status 1", and where the rest is.
void printOutput(const std::string& output, const std::string& run, const std::string& ended,
                 const RunFolder& folder);

}  // namespace ebbtide::cli
