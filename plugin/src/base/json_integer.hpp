// An integer of a rank's answer.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>

namespace ebbtide::plugin {

// At a JSON pointer ("/memory/budget_bytes"); 0: there is none. Throws std::bad_alloc.
inline std::int64_t integerIn(const nlohmann::json& tree, const char* pointer) {
  const nlohmann::json::json_pointer at(pointer);
  const bool there = tree.is_object() && tree.contains(at) && tree[at].is_number_integer();
  return there ? tree[at].get<std::int64_t>() : 0;
}

}  // namespace ebbtide::plugin
