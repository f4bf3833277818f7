// SpillTarget: where bytes of values go when they leave the device, and come back from, always
// bit-exact. A file (SpillStore), or for a GPU the host's pinned memory.
//
// write() and read() may return before the bytes have been moved: whatever is asked of the device
// by this thread after them comes after that, and a slot is read only once it is whole. Thread
// rule: any thread. Torch-free.
#pragma once

#include <cstdint>
#include <mutex>
#include <optional>
#include <string>
#include <utility>

#include "device/checksum.hpp"

namespace ebbtide::plugin {

class SpillTarget {
 public:
  static constexpr std::int64_t kLeastBytes = 32 << 10;  // less is not worth a system call

  struct Slot {
    std::int64_t offset = 0;  // the target's own way of finding it
    std::int64_t bytes = 0;
    std::int64_t room_bytes = 0;  // at most an eighth more
    Checksum checksum{};          // of all bytes; of a disk's alone
  };

  virtual ~SpillTarget() = default;

  // What may come of the bytes once write() has returned, beside being freed.
  enum class Afterwards : std::uint8_t {
    kFreed,    // nobody else has them, this thread wrote them: it may go on meanwhile
    kWritten,  // the program may write them next
  };

  // Nothing when they cannot be stored; then lastError() says why.
  virtual std::optional<Slot> write(const void* data, std::int64_t bytes,
                                    Afterwards afterwards) noexcept = 0;
  // False when they cannot be read, or are others than were written; then lastError() says why.
  virtual bool read(const Slot& slot, void* data) noexcept = 0;
  // Are these the bytes that were written? Without a copy of the whole. False, too, where the
  // device fails. A disk is not read: a disk that fails is no difference between the bytes.
  virtual bool equals(const Slot& slot, const void* data) const noexcept = 0;
  virtual void release(const Slot& slot) noexcept = 0;
  // To write so much and read it back, as measured. 0: nothing could be stored.
  virtual std::int64_t roundTripBytesPerSecond() noexcept = 0;

  std::string lastError() const {
    std::lock_guard lock(error_mutex_);
    return error_;
  }

 protected:
  void setError(std::string error) noexcept {
    std::lock_guard lock(error_mutex_);
    error_ = std::move(error);
  }

 private:
  mutable std::mutex error_mutex_;
  std::string error_;
};

}  // namespace ebbtide::plugin
