// A folder of the test's own, 0700, that goes with it.
#pragma once

#include <stdlib.h>

#include <filesystem>
#include <string>

namespace ebbtide::metrics::test {

class PrivateFolder {
 public:
  PrivateFolder() {
    std::string pattern = (std::filesystem::temp_directory_path() / "ebbtide_XXXXXX").string();
    path_ = ::mkdtemp(pattern.data());
  }
  ~PrivateFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  PrivateFolder(const PrivateFolder&) = delete;
  PrivateFolder& operator=(const PrivateFolder&) = delete;

  const std::string& path() const { return path_; }
  std::string operator/(const std::string& name) const { return path_ + "/" + name; }

 private:
  std::string path_;
};

}  // namespace ebbtide::metrics::test
