#include "execute/verifier.hpp"

#include "base/elapsed.hpp"
#include "execute/run_value.hpp"
#include "execute/unreadable_spill.hpp"

namespace ebbtide::plugin {

Fingerprint Verifier::printOf(const RunValue& value, const c10::Storage& storage,
                              Fingerprint::Extent extent) const {
  return device_.contents.fingerprint(value.coveredIn(storage), value.covered().bytes(), extent);
}

bool Verifier::matches(const RunValue& value, const c10::Storage& storage) const {
  return device_.contents.match(*value.print(), value.coveredIn(storage), value.covered().bytes());
}

bool Verifier::repeats(const RunValue& value, const c10::Storage& replayed) {
  if (static_cast<std::int64_t>(replayed.nbytes()) < value.bytes) return false;
  if (!value.checksum()) return matches(value, replayed);
  return checksumOf(value.coveredIn(replayed), value.covered().bytes()) == *value.checksum();
}

Checksum Verifier::checksumOf(const void* data, std::int64_t bytes) {
  const auto start = Clock::now();
  const Checksum checksum = device_.contents.checksum(data, bytes);
  checksums_.add(bytes, nanosecondsSince(start));
  return checksum;
}

bool Verifier::differsFromBirth(const RunValue& value) const {
  const c10::Storage& held = value.stored.held();
  if (!value.print() || value.stored.replaced() || value.stored.overwritten() || !held)
    return false;
  return value.isElsewhere(held) || !matches(value, held);
}

c10::Storage Verifier::originalOf(const RunValue& value) {
  std::optional<SpillTarget::Slot> spilled;
  {
    const StepLock::Held lock(lock_);
    if (c10::Storage original = value.stored.storage()) return original;
    spilled = value.stored.slot();
  }
  if (!spilled) return {};
  c10::Storage original = device_.blocks.allocate(static_cast<std::size_t>(spilled->bytes));
  if (!spills_.read(*spilled, original.mutable_data()))
    throw UnreadableSpill(spills_.lastError(), device_.contents.onHost());
  return original;
}

std::optional<bool> Verifier::sameAsOriginal(const RunValue& value, const c10::Storage& replayed) {
  std::optional<SpillTarget::Slot> spilled;
  {
    const StepLock::Held lock(lock_);
    if (value.uninitialised()) return std::nullopt;
    if (!value.stored.storage()) spilled = value.stored.slot();
  }
  if (static_cast<std::int64_t>(replayed.nbytes()) < value.bytes) return false;
  const bool whole = spilled && value.covered() == ByteRange{0, spilled->bytes};
  if (whole) return spills_.equals(*spilled, replayed.data());
  const c10::Storage original = originalOf(value);
  if (!original) {  // it died with the program's last reference: its print of all bytes is left
    if (!value.print()) return std::nullopt;
    return matches(value, replayed);
  }
  if (static_cast<std::int64_t>(original.nbytes()) < value.covered().end) return false;
  return device_.contents.equal(value.coveredIn(original), value.coveredIn(replayed),
                                value.covered().bytes());
}

}  // namespace ebbtide::plugin
