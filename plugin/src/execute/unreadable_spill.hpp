// UnreadableSpill: a value that was spilled cannot be read back as it was. The step that needs it
// ends by this: no op is at fault, and no other bytes serve. Includes torch.
#pragma once

#include <c10/util/Exception.h>

#include <exception>
#include <string>

#include "base/message_table.hpp"

namespace ebbtide::plugin {

class UnreadableSpill : public c10::Error {
 public:
  // `why`: of the target. `on_disk`: another one may be named.
  UnreadableSpill(const std::string& why, bool on_disk)
      : c10::Error({__func__, __FILE__, __LINE__}, text(why, on_disk)) {}

 private:
  static std::string text(const std::string& why, bool on_disk) {
    return withCode("ebbtide: the spill file could not be read back: " + why +
                    (on_disk ? ". Name a folder on another disk: EBBTIDE_SPILL_DIR" : ""));
  }
};

inline bool isUnreadableSpill(const std::exception& error) noexcept {
  return dynamic_cast<const UnreadableSpill*>(&error) != nullptr;
}

}  // namespace ebbtide::plugin
