// KnownBytes: which bytes of a value its op gave, and what they are known by once they are gone: a
// fingerprint, or a checksum of all bytes. Torch-free.
//
//   born ─┬─ covered: what its op's results look at ── coverAlso() ─► more of it
//         └─ uninitialised ── fill(): something unseen wrote it ─► covered whole
//
// Bytes that are not covered are never compared. If anybody may read them, the value is kept.
// Thread rule: its owner's lock.
#pragma once

#include <cstdint>
#include <optional>

#include "base/byte_range.hpp"
#include "device/checksum.hpp"
#include "device/fingerprint.hpp"

namespace ebbtide::plugin {

class KnownBytes {
 public:
  explicit KnownBytes(std::int64_t bytes) : covered_{0, bytes} {}  // all bytes

  const ByteRange& covered() const noexcept { return covered_; }
  bool uninitialised() const noexcept { return uninitialised_; }
  // Of contents that may be dropped and computed again.
  const std::optional<Fingerprint>& print() const noexcept { return print_; }
  const std::optional<Checksum>& checksum() const noexcept { return checksum_; }
  // Do all bytes with that checksum go with the one that was left? Where none was, any does.
  bool isSummedAs(const Checksum& sum) const noexcept { return checksum_.value_or(sum) == sum; }

  // --- transitions. Those that return bool: false: nothing has changed.
  void give(const ByteRange& covered, bool uninitialised) noexcept {  // its op has
    covered_ = covered;
    uninitialised_ = uninitialised;
  }
  bool coverAlso(const ByteRange& more) noexcept {  // a print is of less, then
    if (covered_.holds(more)) return false;
    covered_ = covered_.with(more);
    return true;
  }
  bool fill(std::int64_t bytes) noexcept {  // so many in all; false: it was initialised
    if (!uninitialised_) return false;
    uninitialised_ = false;
    covered_ = {0, bytes};
    return true;
  }
  void notePrint(const Fingerprint& print) noexcept { print_ = print; }
  void forgetPrint() noexcept { print_.reset(); }     // the bytes are elsewhere
  bool leaveChecksum(const Checksum& sum) noexcept {  // when it goes; false: another one was left
    if (!isSummedAs(sum)) return false;
    checksum_ = sum;
    return true;
  }

 private:
  ByteRange covered_;
  std::optional<Fingerprint> print_;
  std::optional<Checksum> checksum_;  // left when it was dropped first
  bool uninitialised_ = false;
};

}  // namespace ebbtide::plugin
