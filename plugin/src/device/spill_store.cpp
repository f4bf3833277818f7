#include "device/spill_store.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <linux/magic.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <limits>
#include <utility>
#include <vector>

#include "base/elapsed.hpp"
#include "device/spill_sizes.hpp"
#include "ebbtide/metrics/held_signal.hpp"
#include "ebbtide/scheduler/shown_text.hpp"

namespace ebbtide::plugin {
namespace {

// Between its copy and its checksum a part stays in the processor's cache.
constexpr std::int64_t kPartBytes = 256 << 10;
constexpr std::int64_t kTrialBytes = 16 << 20;  // more than a core's caches hold
constexpr int kTrials = 4;

bool writePart(int file, const char* data, std::int64_t bytes, std::int64_t offset) {
  while (bytes > 0) {
    const ssize_t done = ::pwrite(file, data, static_cast<std::size_t>(bytes), offset);
    if (done < 0 && errno == EINTR) continue;
    if (done <= 0) return false;
    data += done, offset += done, bytes -= done;
  }
  return true;
}

bool readPart(int file, char* data, std::int64_t bytes, std::int64_t offset) {
  while (bytes > 0) {
    const ssize_t done = ::pread(file, data, static_cast<std::size_t>(bytes), offset);
    if (done < 0 && errno == EINTR) continue;
    if (done == 0) errno = EIO;  // the file ends before the slot does
    if (done <= 0) return false;
    data += done, offset += done, bytes -= done;
  }
  return true;
}

// Of what was written. Nothing: it could not be, as errno says.
std::optional<Checksum> writeAll(int file, const char* data, std::int64_t bytes,
                                 std::int64_t offset) {
  metrics::HeldSignal held(SIGXFSZ);
  ChecksumOfParts written;
  for (std::int64_t at = 0; at < bytes; at += kPartBytes) {
    const std::int64_t part = std::min(kPartBytes, bytes - at);
    written.take(data + at, part);
    if (writePart(file, data + at, part, offset + at)) continue;
    if (errno == EFBIG) held.take();
    return std::nullopt;
  }
  return written.sum();
}

// Of what came back. Nothing: it could not be read, as errno says.
std::optional<Checksum> readAll(int file, char* data, std::int64_t bytes, std::int64_t offset) {
  ChecksumOfParts read;
  for (std::int64_t at = 0; at < bytes; at += kPartBytes) {
    const std::int64_t part = std::min(kPartBytes, bytes - at);
    if (!readPart(file, data + at, part, offset + at)) return std::nullopt;
    read.take(data + at, part);
  }
  return read.sum();
}

}  // namespace

SpillStore::SpillStore(std::string folder, int sharers)
    : folder_(std::move(folder)), sharers_(sharers) {}

SpillStore::~SpillStore() {
  if (file_ >= 0) ::close(file_);
}

bool SpillStore::openFile(const Held&) {
  if (file_ >= 0) return true;
  const std::string folder = this->folder();
  file_ = ::open(folder.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
  if (file_ < 0) {  // file systems without O_TMPFILE
    std::string path = folder + "/ebbtide-spill-XXXXXX";
    file_ = ::mkostemp(path.data(), O_CLOEXEC);
    if (file_ >= 0) ::unlink(path.c_str());
  }
  if (file_ < 0) setError(whatFailed("cannot make a spill file", errno));
  owner_ = ::getpid();
  return file_ >= 0;
}

std::optional<SpillStore::Slot> SpillStore::write(const void* data, std::int64_t bytes,
                                                  Afterwards /*afterwards*/) noexcept try {
  Slot slot{0, bytes, spillRoomBytes(bytes)};
  bool used_before = false;  // else the file system finds room for it first
  {
    const Held held = guard_.hold();
    if (!openFile(held)) return std::nullopt;
    if (owner_ != ::getpid()) {
      setError("the spill file is the parent's");
      return std::nullopt;
    }
    if (const auto found = free_.find(slot.room_bytes); found != free_.end()) {
      slot.offset = found->second;
      free_.erase(found);
      used_before = true;
    } else {
      slot.offset = end_;
      end_ += slot.room_bytes;
    }
  }
  const auto start = Clock::now();
  const auto written = writeAll(file_, static_cast<const char*>(data), bytes, slot.offset);
  const int why = errno;
  const std::int64_t took_ns = nanosecondsSince(start);
  const Held held = guard_.hold();
  if (written) {
    slot.checksum = *written;
    written_bytes_ += bytes;
    if (used_before && bytes >= kLeastTimedBytes) writing_.add(bytes, took_ns);
    return slot;
  }
  if (used_before) {
    free_.emplace(slot.room_bytes, slot.offset);
  } else {
    giveBack(held, slot);
  }
  setError(whatFailed("cannot write to the spill file", why));
  return std::nullopt;
} catch (...) {
  return std::nullopt;
}

// The file system found no room for all of it: part of it must not take what little there is, nor
// serve a later value in the place of a slot that has its room.
void SpillStore::giveBack(const Held&, const Slot& slot) noexcept {
  ::fallocate(file_, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, slot.offset, slot.room_bytes);
  if (slot.offset + slot.room_bytes == end_) end_ = slot.offset;  // else those addresses are lost
}

std::string SpillStore::whatFailed(const char* what, int why) const {
  return fmt::format("{}: {} (errno {})", placeOf(what), std::strerror(why), why);
}

std::string SpillStore::placeOf(const char* what) const {
  return fmt::format("{} in {}", what, scheduler::shownText(folder(), scheduler::kMostOfPath));
}

std::string SpillStore::folder() const {
  std::error_code ignored;
  std::string folder =
      folder_.empty() ? std::filesystem::temp_directory_path(ignored).string() : folder_;
  return folder.empty() ? "." : folder;
}

bool SpillStore::read(const Slot& slot, void* data) noexcept try {
  const auto start = Clock::now();
  const auto came_back = readAll(file_, static_cast<char*>(data), slot.bytes, slot.offset);
  if (!came_back) {
    setError(whatFailed("read error", errno));
    return false;
  }
  if (*came_back != slot.checksum) {
    setError(placeOf("read error") + ": other bytes came back than were written");
    return false;
  }
  const std::int64_t took_ns = nanosecondsSince(start);
  if (slot.bytes >= kLeastTimedBytes) reading_.add(slot.bytes, took_ns);
  return true;
} catch (...) {  // no memory for the message
  return false;
}

bool SpillStore::equals(const Slot& slot, const void* data) const noexcept {
  return Checksum::of(data, slot.bytes) == slot.checksum;
}

void SpillStore::release(const Slot& slot) noexcept {
  const Held held = guard_.hold();
  try {
    free_.emplace(slot.room_bytes, slot.offset);
  } catch (...) {  // the slot is lost until exit; nothing else depends on it
    return;
  }
}

bool SpillStore::hasRates(const Held&) const noexcept {
  return writing_.measuredBytes() >= kTrialBytes && reading_.measuredBytes() >= kTrialBytes;
}

// The first time the file system finds room. Of the others the quickest counts, as of an op's
// times: what else ran on its core is no word on the disk.
void SpillStore::tryOut() noexcept try {
  std::vector<char> data(static_cast<std::size_t>(kTrialBytes), 1);
  std::int64_t write_ns = std::numeric_limits<std::int64_t>::max(), read_ns = write_ns;
  for (int i = 0; i < kTrials; ++i) {
    auto start = Clock::now();
    const auto slot = write(data.data(), kTrialBytes);
    if (!slot) return;
    if (i > 0) write_ns = std::min(write_ns, nanosecondsSince(start));
    start = Clock::now();
    const bool ok = read(*slot, data.data());
    read_ns = std::min(read_ns, nanosecondsSince(start));
    release(*slot);
    if (!ok) return;
  }
  writing_.set(kTrialBytes, write_ns);
  reading_.set(kTrialBytes, read_ns);
  writing_.stretch(sharers_);
  reading_.stretch(sharers_);
} catch (...) {
  return;
}

std::int64_t SpillStore::roundTripBytesPerSecond() noexcept {
  bool tries_out = false;
  {
    const Held held = guard_.hold();
    tries_out = !hasRates(held) && !std::exchange(tried_out_, true);
  }
  if (tries_out) tryOut();
  const Held held = guard_.hold();
  if (!hasRates(held)) return 0;
  constexpr std::int64_t kGib = std::int64_t{1} << 30;
  const double ns_a_gib = writing_.nanosecondsFor(kGib) + reading_.nanosecondsFor(kGib);
  return static_cast<std::int64_t>(static_cast<double>(kGib) * 1e9 / std::max(ns_a_gib, 1.0));
}

bool SpillStore::inMemory() noexcept try {
  const Held held = guard_.hold();
  struct statfs system = {};
  if (!openFile(held) || ::fstatfs(file_, &system) != 0) return false;
  return system.f_type == TMPFS_MAGIC || system.f_type == RAMFS_MAGIC;
} catch (...) {
  return false;
}

std::int64_t SpillStore::writtenBytes() const noexcept {
  const Held held = guard_.hold();
  return written_bytes_;
}

}  // namespace ebbtide::plugin
