// JobDocument: a JSON object that another rank wrote, read with each thing checked.
//
// Every function throws std::invalid_argument, one sentence that names the key. JSON, not CBOR:
// nlohmann's JSON parser does not recurse, so no text of whatever nesting overflows the stack.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

namespace ebbtide::plugin {

inline constexpr std::int32_t kMostRanks = 1 << 20;  // of a job

class JobDocument {
 public:
  struct Range {  // both ends belong to it
    std::int64_t least = 0;
    std::int64_t most = 0;
  };

  explicit JobDocument(std::string_view text);

  std::int64_t number(const char* key, Range range) const;
  bool flag(const char* key) const;
  std::string text(const char* key, std::size_t most_bytes) const;
  std::vector<std::int64_t> numbers(const char* key, std::size_t most_count, Range range) const;
  // Of exactly so many.
  std::vector<std::int64_t> column(const char* key, std::size_t count, Range range) const;

 private:
  const nlohmann::json& at(const char* key) const;

  nlohmann::json object_;
};

}  // namespace ebbtide::plugin
