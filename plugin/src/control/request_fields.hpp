// RequestFields: the body of a request, a JSON object that has no fields but those that are known.
// Torch-free.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace ebbtide::plugin {

struct RequestFields {
  nlohmann::json fields = nlohmann::json::object();
  std::string problem = {};  // not empty: what is wrong with the body, and nothing is in `fields`

  bool has(const char* name) const { return fields.contains(name); }
};

// `required`: it must have that one; nullptr: none, and the body may be empty.
RequestFields readFields(const std::string& body, const char* required,
                         const std::vector<std::string>& others = {});

}  // namespace ebbtide::plugin
