// DeviceContents: bytes of values where they live, the host's memory or a GPU's. The executor asks
// it about these bytes, and follows no pointer into them.
//
// All of it comes after what this thread has asked the device for before, and what it returns is
// known: who asks a GPU waits for it. Where the device fails nothing equals anything. Thread rule:
// any thread, with locks of the executor held, so nothing here allocates memory of the device.
// Torch-free.
#pragma once

#include <cstdint>

#include "device/checksum.hpp"
#include "device/fingerprint.hpp"
#include "device/unwritten_bytes.hpp"

namespace ebbtide::plugin {

class DeviceContents {
 public:
  virtual ~DeviceContents() = default;

  // May the host read them in place, at any time? Where not, nothing is kept as bits, steps that
  // are merely recorded take no prints, what may add in no order is kept, values are not dropped
  // while the program holds them (their blocks cannot be watched in its frees), and without a plan
  // they are spilled, not computed again.
  virtual bool onHost() const noexcept = 0;
  // Do both runs have the original's bytes, where they wrote any? (unwritten_bytes.hpp)
  virtual bool equalWhereWritten(const void* original, const FilledRun& first,
                                 const FilledRun& second, std::int64_t bytes) const noexcept = 0;
  // Of a device's prints and checksums each equals its own kind alone.
  virtual Fingerprint fingerprint(const void* data, std::int64_t bytes,
                                  Fingerprint::Extent extent) const noexcept = 0;
  virtual Checksum checksum(const void* data, std::int64_t bytes) const noexcept = 0;
  virtual void copy(void* to, const void* from, std::int64_t bytes) const = 0;  // throws

  bool equal(const void* a, const void* b, std::int64_t bytes) const noexcept {
    const FilledRun whole{b};
    return equalWhereWritten(a, whole, whole, bytes);
  }
  bool match(const Fingerprint& print, const void* data, std::int64_t bytes) const noexcept {
    return fingerprint(data, bytes, print.extent()) == print;
  }
};

}  // namespace ebbtide::plugin
