#include "ebbtide/metrics/text_file.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <system_error>
#include <utility>

namespace ebbtide::metrics {
namespace {

// errno; 0: all of it is written.
int writeAll(int file, std::string_view text) {
  while (!text.empty()) {
    const ssize_t written = ::write(file, text.data(), text.size());
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return written == 0 ? ENOSPC : errno;
    text.remove_prefix(static_cast<std::size_t>(written));
  }
  return 0;
}

}  // namespace

// The collector reads what ends in .prom: the name beside it does not.
int TextFile::tryWrite(const std::string& text) const {
  const std::string beside = path_ + "." + std::to_string(::getpid()) + ".tmp";
  const int file = ::open(beside.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW,
                          S_IRUSR | S_IWUSR | S_IRGRP | S_IROTH);
  if (file < 0) return errno;
  int error = writeAll(file, text);
  if (::close(file) != 0 && error == 0) error = errno;  // some disks are found full only here
  if (error == 0 && ::rename(beside.c_str(), path_.c_str()) != 0) error = errno;
  if (error != 0) ::unlink(beside.c_str());
  return error;
}

std::optional<std::string> TextFile::write(const std::string& text, Time now) {
  due_ = now + kInterval;
  const int error = tryWrite(text);
  if (error == 0 || std::exchange(said_, true)) return std::nullopt;
  return path_ + ": " + std::generic_category().message(error);
}

}  // namespace ebbtide::metrics
