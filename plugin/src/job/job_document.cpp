#include "job/job_document.hpp"

#include <fmt/format.h>

#include <limits>
#include <stdexcept>

namespace ebbtide::plugin {
namespace {

std::int64_t checked(const char* key, const nlohmann::json& value, JobDocument::Range range) {
  if (!value.is_number_integer())
    throw std::invalid_argument(fmt::format("\"{}\" has something else than a whole number", key));
  const bool large = value.is_number_unsigned() &&
                     value.get<std::uint64_t>() >
                         static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max());
  const std::int64_t number = large ? 0 : value.get<std::int64_t>();
  if (large || number < range.least || number > range.most) {
    throw std::invalid_argument(
        fmt::format("\"{}\" has {}, not in {} to {}", key, value.dump(), range.least, range.most));
  }
  return number;
}

}  // namespace

JobDocument::JobDocument(std::string_view text)
    : object_(nlohmann::json::parse(text, nullptr, /*allow_exceptions=*/false)) {
  if (!object_.is_object()) throw std::invalid_argument("it is no JSON object");
}

const nlohmann::json& JobDocument::at(const char* key) const {
  const auto found = object_.find(key);
  if (found == object_.end()) throw std::invalid_argument(fmt::format("\"{}\" is not there", key));
  return *found;
}

std::int64_t JobDocument::number(const char* key, Range range) const {
  return checked(key, at(key), range);
}

bool JobDocument::flag(const char* key) const {
  const nlohmann::json& value = at(key);
  if (!value.is_boolean())
    throw std::invalid_argument(fmt::format("\"{}\" is neither true nor false", key));
  return value.get<bool>();
}

std::string JobDocument::text(const char* key, std::size_t most_bytes) const {
  const nlohmann::json& value = at(key);
  if (!value.is_string()) throw std::invalid_argument(fmt::format("\"{}\" is no text", key));
  std::string text = value.get<std::string>();
  if (text.size() > most_bytes)
    throw std::invalid_argument(fmt::format("\"{}\" is longer than {} bytes", key, most_bytes));
  return text;
}

std::vector<std::int64_t> JobDocument::numbers(const char* key, std::size_t most_count,
                                               Range range) const {
  const nlohmann::json& value = at(key);
  if (!value.is_array()) throw std::invalid_argument(fmt::format("\"{}\" is no list", key));
  if (value.size() > most_count) {
    throw std::invalid_argument(
        fmt::format("\"{}\" has {} numbers, more than {}", key, value.size(), most_count));
  }
  std::vector<std::int64_t> numbers;
  numbers.reserve(value.size());
  for (const nlohmann::json& item : value) numbers.push_back(checked(key, item, range));
  return numbers;
}

std::vector<std::int64_t> JobDocument::column(const char* key, std::size_t count,
                                              Range range) const {
  std::vector<std::int64_t> numbers = this->numbers(key, count, range);
  if (numbers.size() != count) {
    throw std::invalid_argument(
        fmt::format("\"{}\" has {} numbers where {} belong", key, numbers.size(), count));
  }
  return numbers;
}

}  // namespace ebbtide::plugin
