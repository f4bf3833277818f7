#include "whole_file.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <utility>

namespace ebbtide::plugin {

WholeFile::WholeFile(std::string path) : path_(std::move(path)), beside_(path_ + ".XXXXXX") {
  const int opened = ::mkostemp(beside_.data(), O_CLOEXEC);
  if (opened < 0) {
    note();
    beside_.clear();
    return;
  }
  file_ = ::fdopen(opened, "w");
  if (file_ != nullptr) return;
  note();
  ::close(opened);
}

WholeFile::~WholeFile() {
  if (file_ != nullptr) std::fclose(file_);
  if (!beside_.empty()) ::unlink(beside_.c_str());
}

void WholeFile::note() noexcept {
  if (error_ == 0) error_ = errno != 0 ? errno : EIO;
}

void WholeFile::write(std::string_view bytes) noexcept {
  if (failed()) return;
  if (std::fwrite(bytes.data(), 1, bytes.size(), file_) != bytes.size()) note();
}

bool WholeFile::keep() noexcept {
  if (file_ != nullptr && std::fclose(std::exchange(file_, nullptr)) != 0) note();
  if (failed()) return false;
  if (::rename(beside_.c_str(), path_.c_str()) != 0) {
    note();
    return false;
  }
  beside_.clear();
  return true;
}

std::string WholeFile::error() const {
  return path_ + ": " + std::strerror(error_);
}

}  // namespace ebbtide::plugin
