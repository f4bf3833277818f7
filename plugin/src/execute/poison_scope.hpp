// While one lives on a thread, what the thread allocates is filled with a pattern. A verification
// step uses a pattern that is never 0, and each time another one. Else bytes that an op leaves
// unwritten would be equal by chance, where its block is the original's. An op that is known to
// leave bytes unwritten has its memory filled with zeros whenever it runs. Includes torch.
#pragma once

#include "device/torch/device_blocks.hpp"

namespace ebbtide::plugin {

inline constexpr unsigned char kZeros = 0;

class PoisonScope {
 public:
  PoisonScope(const DeviceBlocks& blocks, unsigned char pattern) noexcept
      : blocks_(blocks), before_(blocks.fillNew(pattern)) {}
  ~PoisonScope() { blocks_.fillNew(before_); }
  PoisonScope(const PoisonScope&) = delete;
  PoisonScope& operator=(const PoisonScope&) = delete;

  static unsigned char nextPattern() noexcept {  // 1 to 255
    thread_local unsigned char last = 0;
    return last = static_cast<unsigned char>(last % 255 + 1);
  }

 private:
  const DeviceBlocks& blocks_;
  const FillPattern before_;
};

}  // namespace ebbtide::plugin
