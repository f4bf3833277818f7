// JSON from files that nobody vouches for: text to a tree, and fields with checked types.
#pragma once

#include <initializer_list>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "ebbtide/scheduler/units.hpp"

namespace ebbtide::scheduler {

// Throws std::invalid_argument "<subject>: line 3: what": no JSON, lists or objects nested deeper
// than any format of ours, a key that comes twice in one object, a number that no type holds.
nlohmann::json parseJson(const std::string& text, const std::string& subject);

// One object of a file. `where` begins its messages: "graph: ops[3]".
class JsonObject {
 public:
  // `tree` outlives this. Throws, as all below: std::invalid_argument with `where`.
  JsonObject(const nlohmann::json& tree, std::string where);

  void expectOnly(std::initializer_list<std::string_view> keys) const;
  void expectFormat(std::string_view format) const;
  bool has(const char* key) const { return tree_.contains(key); }

  std::int64_t integer(const char* key) const;
  std::uint64_t hash(const char* key) const;
  std::int64_t integerOr(const char* key, std::int64_t otherwise) const;
  std::int32_t idOr(const char* key, std::int32_t otherwise) const;
  bool booleanOr(const char* key, bool otherwise) const;
  std::string textOr(const char* key, const std::string& otherwise) const;
  std::vector<std::int32_t> ids(const char* key) const;
  std::vector<std::int64_t> integers(const char* key) const;
  std::vector<double> numbers(const char* key) const;
  const nlohmann::json& list(const char* key) const;

  [[noreturn]] void fail(const std::string& what) const;

 private:
  const nlohmann::json& at(const char* key) const;

  const nlohmann::json& tree_;
  std::string where_;
};

}  // namespace ebbtide::scheduler
