// WholeFile: a file that others see as a whole or not at all: it is written beside its place, and
// named when all of it is there. Readable for the user alone. Torch-free.
//
// Not thread-safe. Nothing throws: a full disk is told by keep().
#pragma once

#include <cstdio>
#include <string>
#include <string_view>

namespace ebbtide::plugin {

class WholeFile {
 public:
  explicit WholeFile(std::string path);
  ~WholeFile();  // what was not kept is gone
  WholeFile(const WholeFile&) = delete;
  WholeFile& operator=(const WholeFile&) = delete;

  void write(std::string_view bytes) noexcept;
  bool failed() const noexcept { return error_ != 0; }  // what comes now is for nothing
  // Takes the place of what had the name before. False: there is nothing new, and error() says why.
  bool keep() noexcept;
  std::string error() const;

 private:
  void note() noexcept;  // errno

  const std::string path_;
  std::string beside_;
  std::FILE* file_ = nullptr;
  int error_ = 0;
};

}  // namespace ebbtide::plugin
