// While one lives on a thread, what the thread allocates is filled with a pattern, each scope with
// another one. A rehearsal does so: bytes that an op leaves unwritten would else be equal by
// chance, its block being the one that the original had. Includes torch.
#pragma once

#include "device_blocks.hpp"

namespace ebbtide::plugin {

class PoisonScope {
 public:
  explicit PoisonScope(const DeviceBlocks& blocks) noexcept : blocks_(blocks) {
    thread_local unsigned char last = 0;
    last = static_cast<unsigned char>(last % 255 + 1);
    before_ = blocks_.fillNew(last);
  }
  ~PoisonScope() { blocks_.fillNew(before_); }
  PoisonScope(const PoisonScope&) = delete;
  PoisonScope& operator=(const PoisonScope&) = delete;

 private:
  const DeviceBlocks& blocks_;
  unsigned char before_ = 0;
};

}  // namespace ebbtide::plugin
