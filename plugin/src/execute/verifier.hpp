// Verifier: are the bytes of a storage those that a value had? It compares them with the original,
// in memory or on the host. Where there is none, it compares the fingerprint or the checksum.
// Includes torch.
//
// Thread rule: originalOf() and sameAsOriginal() take the step's lock, and allocate or read
// without it. All else is for who holds it, or alone has the value.
#pragma once

#include <c10/core/Storage.h>

#include <cstdint>
#include <optional>

#include "base/rate_meter.hpp"
#include "device/checksum.hpp"
#include "device/fingerprint.hpp"
#include "device/spill_target.hpp"
#include "device/torch/training_device.hpp"
#include "execute/step_lock.hpp"

namespace ebbtide::plugin {

class RunValue;

class Verifier {
 public:
  // `checksums`: how long they take, which each adds to. `lock`: of the values.
  Verifier(const TrainingDevice& device, SpillTarget& spills, RateMeter& checksums, StepLock& lock)
      : device_(device), spills_(spills), checksums_(checksums), lock_(lock) {}

  // Of what its op gave.
  Fingerprint printOf(const RunValue& value, const c10::Storage& storage,
                      Fingerprint::Extent extent) const;
  bool matches(const RunValue& value, const c10::Storage& storage) const;  // its print
  // Are the bytes of a replay those that were dropped, as far as they were summed up?
  bool repeats(const RunValue& value, const c10::Storage& replayed);
  Checksum checksumOf(const void* data, std::int64_t bytes);
  // Something that tells nobody wrote to what is held; large values by samples.
  bool differsFromBirth(const RunValue& value) const;
  // Where it is at hand, or on the host: throws UnreadableSpill where that cannot be read back.
  c10::Storage originalOf(const RunValue& value);
  // Nothing: its contents are undefined, or neither the original nor its print is left. Throws as
  // originalOf() does: what was compared with nothing must not take the original's place.
  std::optional<bool> sameAsOriginal(const RunValue& value, const c10::Storage& replayed);

 private:
  const TrainingDevice& device_;
  SpillTarget& spills_;
  RateMeter& checksums_;
  StepLock& lock_;
};

}  // namespace ebbtide::plugin
