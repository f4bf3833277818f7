// AuditCache: what rehearsals of earlier processes found, in a file of the user's. Torch-free.
//
// Verdicts are of two kinds, since a rehearsal finds two kinds of things:
//   of an op       two replays from the same inputs differed: its kernel does not repeat, in any
//                  program. Kept under the op's audit key.
//   of a program   at this place a replay equalled its original, or did not. That depends on more
//                  than the op: NumPy may write into its input unseen, a storage may be resized.
//                  Only a rehearsal of that program tells, so no program is trusted for another's
//                  sake. Kept under the trace's signature and the place: number and key of the op.
// An op of a program whose kernel repeats elsewhere is thus rehearsed there all the same.
//
// What is trusted is compared again, all bytes of it, in the first step that does (Plan::proven).
// Where a replay differs its program is forgotten here, and the next process rehearses it again: so
// a file that this process may not write is not used, and one that it cannot correct is removed.
//
// The file belongs to one host (below) and one user. It is read and replaced as a whole: written
// beside, then renamed, so that a reader sees the old or the new one. Writers take turns by a lock
// file, and each adds what it found itself to what is there by then. What fails costs a rehearsal,
// never the training: nothing here throws.
//
// Thread rule: any thread.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <vector>

namespace ebbtide::plugin {

// Of an op, its arguments' looks and all else that may choose another kernel: audit_key.hpp.
// 0: not known, and nothing is known of it.
using AuditKey = std::uint64_t;

// The op of that number in its program; 0 where the key is.
std::uint64_t auditPlace(std::size_t op, AuditKey key) noexcept;

class AuditCache {
 public:
  struct Folder {
    std::string path;
    bool asked_for = false;  // by the user, who is told when it cannot be written
  };
  struct Host {  // what verdicts depend on, beyond their keys; and on the CPU, which is found here
    std::string torch_version;
    std::string torch_build;     // how, and with which libraries
    std::string cpu_capability;  // what torch dispatches to: AVX2, AVX512, …
    std::string settings;        // of its libraries: variables.hpp
    int threads = 0;
  };
  using Note = std::function<void(const std::string&)>;

  // `note` is called at most once, by any of the functions below.
  AuditCache(Folder folder, const Host& host, Note note);

  void load() noexcept;  // before the first question; nothing is known until then
  bool differs(AuditKey op) const;
  bool equal(std::uint64_t program, std::uint64_t place) const;
  bool kept(std::uint64_t program, std::uint64_t place) const;  // its replay differed there

  // Known here at once, to other processes from the next save() on.
  void addDiffers(AuditKey op);
  void addEqual(std::uint64_t program, const std::vector<std::uint64_t>& places);
  void addKept(std::uint64_t program, std::uint64_t place);
  void forget(std::uint64_t program);
  // This process keeps ops of the program because of an earlier one. After many have, its kept
  // places are forgotten: the script that they come from may have changed long since.
  void countKeeping(std::uint64_t program);
  void save() noexcept;

  const std::string& path() const noexcept { return path_; }
  std::string lockPath() const { return path_ + ".lock"; }

 private:
  struct Program {
    bool forgotten = false;  // of what is added: what was known before no longer is
    std::set<std::uint64_t> equal, kept;
    std::uint64_t keepings = 0;  // processes that went by `kept`
    void forgetKept();
    std::uint64_t age = 0;  // the larger, the later it was added to
  };
  struct Verdicts {
    std::set<AuditKey> differing_ops;
    std::map<std::uint64_t, Program> programs;
    std::uint64_t latest = 0;  // age

    void add(const Verdicts& newer);
    bool empty() const { return differing_ops.empty() && programs.empty(); }
  };
  class Lock;

  Verdicts read() const;  // throws std::runtime_error: why it is not used
  bool writable() const;  // else errno says why
  static Verdicts parse(const std::string& text, const std::string& header);
  std::string render(const Verdicts& verdicts) const;
  void replace(const std::string& text) const;
  void removeForgotten() const noexcept;
  std::string shown() const;  // its path, as a message quotes it
  void noteOnce(const std::string& text);

  const Folder folder_;
  const std::string header_;
  const std::string path_;
  const Note note_;
  mutable std::mutex mutex_;  // guards all below, and is held while the file is read or written
  Verdicts known_;
  Verdicts added_;    // by this process, not written yet
  bool ours_ = true;  // false: what is there is not ours to replace
  bool noted_ = false;
};

}  // namespace ebbtide::plugin
