// SpillStore: bytes of values in an unlinked file: the host's SpillTarget.
//
// A file system may have taken bytes, fail to write them later (NFS, write-back of FUSE, thin
// volumes, a dying disk) and give zeros or older bytes back, as if all were well. So each slot has
// the checksum of what was written, and reading others is an error.
//
// Thread rule: any thread. The file is made at the first write and goes with the process.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "base/guard.hpp"
#include "base/rate_meter.hpp"
#include "device/spill_target.hpp"

namespace ebbtide::plugin {

class SpillStore final : public SpillTarget {
 public:
  // `sharers`: processes that write to the same disk at once.
  explicit SpillStore(std::string folder, int sharers = 1);
  ~SpillStore() override;
  SpillStore(const SpillStore&) = delete;
  SpillStore& operator=(const SpillStore&) = delete;

  // Nothing when the disk is full, the process may not make its file that large, its folder is
  // gone, or by a forked child, which has its parent's file but does not know its slots.
  std::optional<Slot> write(const void* data, std::int64_t bytes,
                            Afterwards afterwards = Afterwards::kFreed) noexcept override;
  bool read(const Slot& slot, void* data) noexcept override;
  bool equals(const Slot& slot, const void* data) const noexcept override;
  void release(const Slot& slot) noexcept override;

  std::int64_t writtenBytes() const noexcept;
  void setSharers(int sharers) noexcept { sharers_ = sharers; }  // what is measured from now on
  // Bytes a second to write to where something was before and read back: of what was moved so far,
  // the newest most, and of trials, once, where that is little: the others rest then, so it counts
  // as if all had a share of the bandwidth. 0: nothing could be stored.
  std::int64_t roundTripBytesPerSecond() noexcept override;
  // Is the file on a file system that is memory itself (tmpfs), so that nothing is gained?
  bool inMemory() noexcept;

  void lockForFork() { guard_.lockForFork(); }
  void unlockAfterFork() { guard_.unlockAfterFork(); }

 private:
  static constexpr std::int64_t kRemembered = 512
                                              << 20;  // bytes: a disk that slows down is soon seen

  using Held = Guard<SpillStore>::Held;

  bool openFile(const Held&);
  void giveBack(const Held&, const Slot& slot) noexcept;  // that nothing was in
  std::string folder() const;
  std::string whatFailed(const char* what, int why) const;  // `why`: an errno
  std::string placeOf(const char* what) const;
  bool hasRates(const Held&) const noexcept;
  void tryOut() noexcept;

  std::string folder_;
  std::atomic<int> sharers_;
  mutable Guard<SpillStore> guard_;  // guards all below; not held while reading or writing data
  int file_ = -1;
  pid_t owner_ = 0;  // the process that made it
  std::int64_t end_ = 0;
  std::multimap<std::int64_t, std::int64_t> free_;  // room -> offset
  std::int64_t written_bytes_ = 0;
  RateMeter writing_{1.0, kRemembered}, reading_{1.0, kRemembered};
  bool tried_out_ = false;  // once: eviction asks for the rates each time
};

}  // namespace ebbtide::plugin
