// What an exception tells of a replay. Includes torch.
#pragma once

#include <c10/util/Exception.h>

#include <exception>
#include <new>
#include <string>

namespace ebbtide::plugin {

// Its first line.
inline std::string messageOf(const std::exception& error) {
  const auto* const torch_error = dynamic_cast<const c10::Error*>(&error);
  const std::string text =
      torch_error != nullptr ? torch_error->what_without_backtrace() : error.what();
  return text.substr(0, text.find('\n'));
}

inline bool isOutOfMemory(const std::exception& error) noexcept {
  return dynamic_cast<const c10::OutOfMemoryError*>(&error) != nullptr ||
         dynamic_cast<const std::bad_alloc*>(&error) != nullptr;
}

// Does it say that itself?
inline bool isOurs(const std::exception& error) {
  return messageOf(error).starts_with("ebbtide:");
}

}  // namespace ebbtide::plugin
