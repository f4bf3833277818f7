#include "verify/audit_cache.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <stdexcept>
#include <string_view>
#include <thread>
#include <utility>

#include "base/stable_hash.hpp"
#include "ebbtide/metrics/whole_file.hpp"
#include "ebbtide/scheduler/shown_text.hpp"
#include "version.hpp"

namespace ebbtide::plugin {
namespace {

using scheduler::shownText;

// To be raised when the file's form or what a key means changes.
constexpr const char* kFormat = "ebbtide-audit-1";
constexpr std::size_t kMostBytes = 1 << 20;  // some 60,000 places; beyond, the oldest programs go
constexpr std::size_t kMostDifferingOps = 4096;
constexpr std::uint64_t kMostKeepings = 32;
constexpr auto kMostWait = std::chrono::seconds(2);  // for other writers

// What is there is another user's, or none of our making: neither read nor replaced.
struct NotOurs : std::runtime_error {
  using std::runtime_error::runtime_error;
};

class File {
 public:
  explicit File(int descriptor) noexcept : descriptor_(descriptor) {}
  ~File() {
    if (descriptor_ >= 0) ::close(descriptor_);
  }
  File(const File&) = delete;
  File& operator=(const File&) = delete;
  int get() const noexcept { return descriptor_; }
  bool open() const noexcept { return descriptor_ >= 0; }

 private:
  int descriptor_;
};

std::string reason() {
  return std::strerror(errno);
}

std::string hex(std::uint64_t word) {
  return fmt::format("{:016x}", word);
}

std::uint64_t hashOf(std::string_view text) {
  return StableHash().add(text).value();
}

// "AMD EPYC 7763 64-Core Processor 0123456789abcdef": its name, or the numbers that it tells
// instead, and a hash of what it can do. Virtual machines on one CPU differ in that. What tells
// nothing is known by its machine.
std::string cpuModel() {
  std::ifstream file("/proc/cpuinfo");
  std::string name, numbers, abilities;
  for (std::string line; std::getline(file, line) && !line.empty();) {
    const auto colon = line.find(':');
    if (colon == std::string::npos) continue;
    const std::string_view key = std::string_view(line).substr(0, line.find_first_of("\t:"));
    const std::string value = line.substr(std::min(line.size(), colon + 2));
    if (key == "model name") name = value + ' ';
    if (key == "flags" || key == "Features") abilities += value;
    if (key.starts_with("CPU ") || key == "vendor_id" || key == "cpu family" || key == "model" ||
        key == "stepping") {
      numbers += value + ' ';
    }
  }
  utsname machine{};
  if (abilities.empty() && ::uname(&machine) == 0)
    abilities = std::string(machine.nodename) + machine.machine;
  return (name.empty() ? numbers : name) + hex(hashOf(numbers + abilities));
}

std::string headerFor(const AuditCache::Host& host) {
  static const std::string cpu = cpuModel();
  std::string header =
      fmt::format("{}; ebbtide {}; torch {} {}; cpu {}; capability {}; threads {}; settings {}",
                  kFormat, kVersion, host.torch_version, hex(hashOf(host.torch_build)), cpu,
                  host.cpu_capability, host.threads, hex(hashOf(host.settings)));
  std::replace_if(
      header.begin(), header.end(), [](unsigned char c) { return c < ' '; }, ' ');
  return header;
}

// Takes words and lines off the front of a text. Throws what parse() throws.
class Reader {
 public:
  explicit Reader(std::string_view text) : text_(text) {}

  std::string_view line() {
    const auto end = text_.find('\n');
    if (end == std::string_view::npos) throw std::runtime_error("it ends in mid-line");
    const std::string_view line = text_.substr(0, end);
    text_.remove_prefix(end + 1);
    return line;
  }
  bool done() const { return text_.empty(); }

 private:
  std::string_view text_;
};

std::vector<std::string_view> wordsOf(std::string_view line) {
  std::vector<std::string_view> words;
  for (std::size_t at = 0; at <= line.size();) {
    const auto end = std::min(line.find(' ', at), line.size());
    words.push_back(line.substr(at, end - at));
    at = end + 1;
  }
  return words;
}

std::uint64_t numberIn(std::string_view word) {
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), value, 16);
  if (error != std::errc() || end != word.data() + word.size() || word.size() != 16)
    throw std::runtime_error("it is damaged");
  return value;
}

}  // namespace

std::uint64_t auditPlace(std::size_t op, AuditKey key) noexcept {
  return key == 0 ? 0 : std::max<std::uint64_t>(1, StableHash().add(op).add(key).value());
}

// -----------------------------------------------------------------------------------------------
// verdicts

void AuditCache::Verdicts::add(const Verdicts& newer) {
  differing_ops.insert(newer.differing_ops.begin(), newer.differing_ops.end());
  for (const auto& [signature, from] : newer.programs) {
    Program& to = programs[signature];
    if (from.forgotten) to = {};
    to.equal.insert(from.equal.begin(), from.equal.end());
    to.keepings += from.keepings;
    if (to.keepings >= kMostKeepings) to.forgetKept();
    to.kept.insert(from.kept.begin(), from.kept.end());
    to.age = ++latest;
    if (to.equal.empty() && to.kept.empty()) programs.erase(signature);
  }
}

// What some ranks found equal is not trusted for that: a rehearsal is to tell.
void AuditCache::Program::forgetKept() {
  for (const std::uint64_t place : kept) equal.erase(place);
  kept.clear();
  keepings = 0;
}

AuditCache::AuditCache(Folder folder, const Host& host, Note note)
    : folder_(std::move(folder)),
      header_(headerFor(host)),
      // Users that share a folder have files of their own.
      path_(fmt::format("{}/audit-{}-{}", folder_.path, ::geteuid(), hex(hashOf(header_)))),
      note_(std::move(note)) {}

bool AuditCache::differs(AuditKey op) const {
  std::lock_guard lock(mutex_);
  return op != 0 && known_.differing_ops.contains(op);
}

bool AuditCache::equal(std::uint64_t program, std::uint64_t place) const {
  std::lock_guard lock(mutex_);
  const auto found = known_.programs.find(program);
  // Ranks may have found otherwise: unknown means kept.
  return place != 0 && found != known_.programs.end() && found->second.equal.contains(place) &&
         !found->second.kept.contains(place);
}

bool AuditCache::kept(std::uint64_t program, std::uint64_t place) const {
  std::lock_guard lock(mutex_);
  const auto found = known_.programs.find(program);
  return place != 0 && found != known_.programs.end() && found->second.kept.contains(place);
}

void AuditCache::addDiffers(AuditKey op) {
  if (op == 0) return;
  std::lock_guard lock(mutex_);
  added_.differing_ops.insert(op);
  known_.differing_ops.insert(op);
}

void AuditCache::addEqual(std::uint64_t program, const std::vector<std::uint64_t>& places) {
  std::lock_guard lock(mutex_);
  for (const std::uint64_t place : places) {
    if (place == 0) continue;
    if (known_.programs[program].equal.insert(place).second)
      added_.programs[program].equal.insert(place);
  }
}

void AuditCache::addKept(std::uint64_t program, std::uint64_t place) {
  if (place == 0) return;
  std::lock_guard lock(mutex_);
  if (known_.programs[program].kept.insert(place).second)
    added_.programs[program].kept.insert(place);
}

void AuditCache::forget(std::uint64_t program) {
  std::lock_guard lock(mutex_);
  known_.programs.erase(program);
  Program& now = added_.programs[program] = {};
  now.forgotten = true;
}

void AuditCache::countKeeping(std::uint64_t program) {
  std::lock_guard lock(mutex_);
  ++added_.programs[program].keepings;
}

// -----------------------------------------------------------------------------------------------
// the file

// Of this process's turn among the writers. Where the file system has no locks all write at once,
// and what one of them found may be lost.
class AuditCache::Lock {
 public:
  explicit Lock(const std::string& path)
      : file_(::open(path.c_str(), O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600)) {
    if (!file_.open()) throw std::runtime_error(reason());
    const auto give_up = std::chrono::steady_clock::now() + kMostWait;
    while (::flock(file_.get(), LOCK_EX | LOCK_NB) != 0) {
      if (errno != EWOULDBLOCK && errno != EINTR) return;
      if (std::chrono::steady_clock::now() > give_up) throw std::runtime_error("it is in use");
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
    }
  }
  ~Lock() { ::flock(file_.get(), LOCK_UN); }  // a child forked meanwhile has the file open too
  Lock(const Lock&) = delete;
  Lock& operator=(const Lock&) = delete;

 private:
  File file_;
};

// A verdict that turns out wrong has to go.
bool AuditCache::writable() const {
  const File lock(::open(lockPath().c_str(), O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600));
  return lock.open() && ::faccessat(AT_FDCWD, folder_.path.c_str(), W_OK | X_OK, AT_EACCESS) == 0;
}

AuditCache::Verdicts AuditCache::read() const {
  const File file(::open(path_.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
  if (!file.open()) {
    if (errno == ELOOP) throw NotOurs("it is a symbolic link");
    if (errno == ENOENT || !folder_.asked_for) return {};
    throw NotOurs(reason());
  }
  struct stat status {};
  if (::fstat(file.get(), &status) != 0) throw NotOurs(reason());
  if (!S_ISREG(status.st_mode)) throw NotOurs("it is no plain file");
  if (status.st_uid != ::geteuid()) throw NotOurs("it belongs to another user");
  if ((status.st_mode & (S_IWGRP | S_IWOTH)) != 0)
    throw std::runtime_error("others may write to it");
  if (status.st_size > static_cast<off_t>(kMostBytes)) throw std::runtime_error("it is too large");
  std::string text(static_cast<std::size_t>(status.st_size), '\0');
  std::size_t at = 0;
  while (at < text.size()) {
    const ssize_t done = ::read(file.get(), text.data() + at, text.size() - at);
    if (done < 0 && errno == EINTR) continue;
    if (done <= 0) throw std::runtime_error(done < 0 ? reason() : "it is cut off");
    at += static_cast<std::size_t>(done);
  }
  return parse(text, header_);
}

// header · "differs <op>" … · "program <signature> <keepings> <n> <equal> … <kept> …" … ·
// "end <check sum>"
AuditCache::Verdicts AuditCache::parse(const std::string& text, const std::string& header) {
  Verdicts verdicts;
  Reader reader(text);
  if (reader.line() != header) throw std::runtime_error("it was made under another set-up");
  for (;;) {
    const std::string_view line = reader.line();
    const std::vector<std::string_view> words = wordsOf(line);
    if (words.front() == "end" && words.size() == 2) {
      const auto before = static_cast<std::size_t>(line.data() - text.data());
      if (words[1] != hex(hashOf(std::string_view(text).substr(0, before))) || !reader.done())
        throw std::runtime_error("its check sum is another one");
      return verdicts;
    }
    if (words.front() == "differs" && words.size() == 2) {
      verdicts.differing_ops.insert(numberIn(words[1]));
      continue;
    }
    if (words.front() != "program" || words.size() < 4) throw std::runtime_error("it is damaged");
    Program& program = verdicts.programs[numberIn(words[1])];
    program.age = ++verdicts.latest;
    program.keepings = numberIn(words[2]);
    const std::uint64_t equal = numberIn(words[3]);
    for (std::size_t i = 4; i < words.size(); ++i)
      (i - 4 < equal ? program.equal : program.kept).insert(numberIn(words[i]));
  }
}

std::string AuditCache::render(const Verdicts& verdicts) const {
  std::string text = header_ + '\n';
  std::size_t ops = 0;
  for (const AuditKey op : verdicts.differing_ops) {
    if (++ops > kMostDifferingOps) break;
    text += "differs " + hex(op) + '\n';
  }
  // The oldest first, and left out where there is no room for all.
  std::vector<std::pair<std::uint64_t, std::string>> lines;
  for (const auto& [signature, program] : verdicts.programs) {
    std::string line =
        "program " + hex(signature) + ' ' + hex(program.keepings) + ' ' + hex(program.equal.size());
    for (const auto* places : {&program.equal, &program.kept}) {
      for (const std::uint64_t place : *places) line += ' ' + hex(place);
    }
    lines.emplace_back(program.age, line + '\n');
  }
  std::sort(lines.begin(), lines.end());
  std::size_t room = kMostBytes - text.size() - sizeof("end 0123456789abcdef\n");
  auto first = lines.end();
  while (first != lines.begin() && std::prev(first)->second.size() <= room)
    room -= (--first)->second.size();
  for (; first != lines.end(); ++first) text += first->second;
  return text + "end " + hex(hashOf(text)) + '\n';
}

void AuditCache::replace(const std::string& text) const {
  metrics::WholeFile file(path_);
  file.write(text);
  if (!file.keep()) throw std::runtime_error(file.reason());
}

// Of a full disk, say: what is not to be trusted any more goes, with all else.
void AuditCache::removeForgotten() const noexcept {
  const auto forgotten = [](const auto& program) { return program.second.forgotten; };
  if (std::any_of(added_.programs.begin(), added_.programs.end(), forgotten))
    ::unlink(path_.c_str());
}

std::string AuditCache::shown() const {
  return shownText(path_) + (folder_.asked_for ? " (EBBTIDE_AUDIT_CACHE)" : "");
}

void AuditCache::noteOnce(const std::string& text) {
  if (!std::exchange(noted_, true) && note_) note_(text);
}

void AuditCache::load() noexcept try {
  std::lock_guard lock(mutex_);
  try {
    Verdicts found = read();
    if (!found.empty() && !writable()) {
      ours_ = false;
      if (folder_.asked_for)
        noteOnce(fmt::format("the audit cache {} is not used: it cannot be written: {}", shown(),
                             reason()));
      return;
    }
    known_ = std::move(found);
    known_.add(added_);
  } catch (const std::exception& error) {
    ours_ = dynamic_cast<const NotOurs*>(&error) == nullptr;
    noteOnce(fmt::format("the audit cache {} is not used: {}", shown(), shownText(error.what())));
  }
} catch (...) {
  return;  // as if nothing had been known
}

void AuditCache::save() noexcept try {
  std::lock_guard lock(mutex_);
  if (added_.empty() || !ours_) return;
  try {
    std::error_code ignored;  // what follows says it
    std::filesystem::create_directories(folder_.path, ignored);
    const Lock turn(lockPath());
    Verdicts verdicts;
    try {
      verdicts = read();
    } catch (const NotOurs&) {
      throw;
    } catch (const std::exception& error) {
      noteOnce(fmt::format("the audit cache {} is not used: {}", shown(), shownText(error.what())));
    }
    verdicts.add(added_);
    replace(render(verdicts));
    added_ = {};
  } catch (const std::exception& error) {
    if (dynamic_cast<const NotOurs*>(&error) == nullptr) removeForgotten();
    if (folder_.asked_for)
      noteOnce(fmt::format("the audit cache {} cannot be written: {}", shown(),
                           shownText(error.what())));
  }
} catch (...) {
  return;  // what was found is found again
}

}  // namespace ebbtide::plugin
