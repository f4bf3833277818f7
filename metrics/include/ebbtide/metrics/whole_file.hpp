// WholeFile: a file that others see as a whole or not at all: it is written beside its place, and
// named when all of it is there. Where it is not kept, what had the name before stays.
//
// A link that is the user's or the system's stays: what it leads to is replaced. Another user's is
// never followed.
//
// Written to as they are, where a part may be left: a device or a pipe, the user's or the system's;
// what leads into /proc (/dev/stdout), at its end; a file that is mounted on its name. A pipe whose
// reader stands still is waited for kPatience in all. One that it closes raises no signal, nor does
// a file that the process may not make that large (RLIMIT_FSIZE).
//
// Nothing is synced to the disk: this is for readers, not for a machine that loses its power.
// Not thread-safe. Nothing throws but for want of memory, when it is made: a full disk is told by
// keep().
#pragma once

#include <sys/stat.h>
#include <sys/types.h>

#include <chrono>
#include <string>
#include <string_view>

namespace ebbtide::metrics {

class WholeFile {
 public:
  static constexpr mode_t kForTheUser = 0600;
  static constexpr mode_t kForReaders = 0644;
  static constexpr mode_t kAsUsual = 0666;
  static constexpr auto kPatience = std::chrono::seconds(2);

  // `mode`: of the new file, less the process's umask; kAsUsual: or that of the user's file that it
  // replaces. A path that ends in .json, say, has no other name that does, at no time.
  explicit WholeFile(std::string path, mode_t mode = kForTheUser);
  ~WholeFile();  // what was not kept is gone
  WholeFile(const WholeFile&) = delete;
  WholeFile& operator=(const WholeFile&) = delete;

  // Goes to the system at once, so that a forked child has nothing left to write: in large pieces.
  void write(std::string_view bytes) noexcept;
  bool failed() const noexcept { return error_ != 0; }  // what comes now is for nothing
  // Takes the place of what had the name before. False: there is nothing new, and error() says why.
  bool keep() noexcept;
  std::string error() const;   // the path and the reason
  std::string reason() const;  // alone

 private:
  void openWhereLinksLead(mode_t mode);
  void openAsItIs(const struct stat& seen);
  void openAsProcSays();
  void openForWriting(int flags);
  void openBeside(mode_t mode, const mode_t* bits);
  void copyToPlace() noexcept;
  ssize_t writeSome(std::string_view bytes) noexcept;
  bool waitForReader() noexcept;
  void note() noexcept;  // errno

  const std::string path_;
  std::string place_;   // where the links of path_ lead
  std::string beside_;  // empty: there is none, or no more
  int file_ = -1;
  int error_ = 0;
  bool pipe_ = false;
  std::chrono::milliseconds patience_ = kPatience;  // that is left, with its reader
};

}  // namespace ebbtide::metrics
