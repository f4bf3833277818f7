// HostContents: DeviceContents of the host's memory.
#pragma once

#include "device/device_contents.hpp"

namespace ebbtide::plugin {

class HostContents final : public DeviceContents {
 public:
  bool onHost() const noexcept override { return true; }
  bool equalWhereWritten(const void* original, const FilledRun& first, const FilledRun& second,
                         std::int64_t bytes) const noexcept override {
    return plugin::equalWhereWritten(original, first, second, bytes);
  }
  Fingerprint fingerprint(const void* data, std::int64_t bytes,
                          Fingerprint::Extent extent) const noexcept override {
    return Fingerprint::of(data, bytes, extent);
  }
  Checksum checksum(const void* data, std::int64_t bytes) const noexcept override {
    return Checksum::of(data, bytes);
  }
  void copy(void* to, const void* from, std::int64_t bytes) const override;
};

}  // namespace ebbtide::plugin
