// What an exception tells of a replay. Includes torch.
#pragma once

#include <c10/util/Exception.h>

#include <exception>
#include <new>
#include <string>
#include <string_view>

#include "base/message_table.hpp"

namespace ebbtide::plugin {

// A value that was dropped is needed, and nothing gives it: a fault of ours.
template <typename... Parts>
std::string lostValue(const Parts&... parts) {
  return withCode(c10::str("ebbtide: what was dropped cannot be had again: ", parts...,
                           ". Please report this; EBBTIDE=1 trains without dropping anything"));
}

// Its first line, without the code of a message of ours: what tells of it has one.
inline std::string messageOf(const std::exception& error) {
  const auto* const torch_error = dynamic_cast<const c10::Error*>(&error);
  const std::string text =
      torch_error != nullptr ? torch_error->what_without_backtrace() : error.what();
  return withoutCode(text.substr(0, text.find('\n')));
}

// The message as the reason within our own line: without our name, and without what to type.
inline std::string reasonOf(const std::exception& error) {
  std::string text = messageOf(error);
  const std::string_view name = "ebbtide: ";
  if (text.starts_with(name)) text.erase(0, name.size());
  return text.substr(0, text.find(". EBBTIDE=1 trains without"));
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
