#include "base/json_text.hpp"

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <limits>
#include <stdexcept>
#include <utility>

namespace ebbtide::scheduler {
namespace {

using nlohmann::json;

// Our formats need four levels; networkx writes some more.
constexpr std::size_t kMostLevels = 64;

// Walks the text and tells the tree builder how far the parser has come.
class TextIterator {
 public:
  using iterator_category = std::input_iterator_tag;
  using value_type = char;
  using difference_type = std::ptrdiff_t;
  using pointer = const char*;
  using reference = const char&;

  TextIterator(const char* at, const char** reached) : at_(at), reached_(reached) {}
  reference operator*() const { return *at_; }
  TextIterator& operator++() {
    *reached_ = ++at_;
    return *this;
  }
  bool operator==(const TextIterator& other) const { return at_ == other.at_; }

 private:
  const char* at_;
  const char** reached_;
};

// "[json.exception.parse_error.101] parse error at line 1, column 2: syntax error …" -> the rest
// after the position, which is told in our own way.
std::string reasonOf(const std::exception& error) {
  std::string text = error.what();
  if (const std::size_t end = text.find("] "); end != std::string::npos) text.erase(0, end + 2);
  if (text.starts_with("parse error")) {
    if (const std::size_t colon = text.find(": "); colon != std::string::npos) {
      text.erase(0, colon + 2);
    }
  }
  return text;
}

class TreeBuilder : public nlohmann::json_sax<json> {
 public:
  TreeBuilder(const std::string& text, const std::string& subject)
      : text_(text), subject_(subject), reached_(text.data()) {}

  json build() {
    const char* end = text_.data() + text_.size();
    json::sax_parse(TextIterator(text_.data(), &reached_), TextIterator(end, &reached_), this);
    return std::move(root_);
  }

  bool null() override { return leaf(nullptr); }
  bool boolean(bool value) override { return leaf(value); }
  bool number_integer(number_integer_t value) override { return leaf(value); }
  bool number_unsigned(number_unsigned_t value) override { return leaf(value); }
  bool number_float(number_float_t value, const string_t&) override { return leaf(value); }
  bool string(string_t& value) override { return leaf(std::move(value)); }
  bool binary(binary_t&) override { return false; }  // not in text
  bool start_object(std::size_t) override { return open(json::object()); }
  bool start_array(std::size_t) override { return open(json::array()); }
  bool end_object() override { return close(); }
  bool end_array() override { return close(); }

  bool key(string_t& name) override {
    json& object = *open_.back();
    if (object.contains(name)) fail("the key '" + name + "' comes twice");
    slot_ = &object[name];
    return true;
  }

  bool parse_error(std::size_t, const std::string&, const json::exception& error) override {
    fail(reasonOf(error));
  }

 private:
  [[noreturn]] void fail(const std::string& what) const {
    const auto line = 1 + std::count(text_.data(), reached_, '\n');
    throw std::invalid_argument(subject_ + ": line " + std::to_string(line) + ": " + what);
  }

  // A list does not grow while one of its items is open, so pointers stay good.
  json* place(json value) {
    if (open_.empty()) return &(root_ = std::move(value));
    if (open_.back()->is_object()) return &(*slot_ = std::move(value));
    open_.back()->push_back(std::move(value));
    return &open_.back()->back();
  }

  bool leaf(json value) {
    place(std::move(value));
    return true;
  }

  bool open(json value) {
    if (open_.size() == kMostLevels) fail("nested deeper than " + std::to_string(kMostLevels));
    open_.push_back(place(std::move(value)));
    return true;
  }

  bool close() {
    open_.pop_back();
    return true;
  }

  const std::string& text_;
  const std::string& subject_;
  const char* reached_;
  json root_;
  std::vector<json*> open_;  // outermost first
  json* slot_ = nullptr;     // of the key that was read last
};

// nlohmann narrows numbers without a word.
template <typename Integer>
bool isWhole(const json& item) {
  if (!item.is_number_integer()) return false;
  return item.is_number_unsigned() ? std::in_range<Integer>(item.get<std::uint64_t>())
                                   : std::in_range<Integer>(item.get<std::int64_t>());
}

// Shortened, and without the tree's own recursion into what is nested.
std::string shown(const json& item) {
  if (item.is_structured()) return item.is_object() ? "an object" : "a list";
  const std::string text = item.dump();
  return text.size() > 40 ? text.substr(0, 40) + "…" : text;
}

template <typename Integer>
Integer whole(const json& item, const JsonObject& object, const std::string& what) {
  if (isWhole<Integer>(item)) return item.get<Integer>();
  object.fail(what + ": " + shown(item) + " is not a whole number of " +
              std::to_string(8 * sizeof(Integer)) + " bits");
}

std::string itemName(const char* key, std::size_t index) {
  return std::string(key) + "[" + std::to_string(index) + "]";
}

template <typename Integer>
std::vector<Integer> wholeList(const json& items, const JsonObject& object, const char* key) {
  std::vector<Integer> list;
  list.reserve(items.size());
  for (const json& item : items) {
    if (!isWhole<Integer>(item)) whole<Integer>(item, object, itemName(key, list.size()));
    list.push_back(item.get<Integer>());
  }
  return list;
}

}  // namespace

json parseJson(const std::string& text, const std::string& subject) {
  // To nlohmann it is the end of the text, whatever follows.
  if (const std::size_t zero = text.find('\0'); zero != std::string::npos) {
    const auto line = 1 + std::count(text.data(), text.data() + zero, '\n');
    throw std::invalid_argument(subject + ": line " + std::to_string(line) + ": byte " +
                                std::to_string(zero) + " is zero");
  }
  return TreeBuilder(text, subject).build();
}

JsonObject::JsonObject(const json& tree, std::string where)
    : tree_(tree), where_(std::move(where)) {
  if (!tree.is_object()) fail("expected an object, not " + shown(tree));
}

void JsonObject::fail(const std::string& what) const {
  throw std::invalid_argument(where_ + ": " + what);
}

const json& JsonObject::at(const char* key) const {
  const auto found = tree_.find(key);
  if (found == tree_.end()) fail("'" + std::string(key) + "' is missing");
  return *found;
}

void JsonObject::expectOnly(std::initializer_list<std::string_view> keys) const {
  for (const auto& [key, value] : tree_.items()) {
    if (std::find(keys.begin(), keys.end(), key) != keys.end()) continue;
    std::string known;
    for (const std::string_view one : keys) known.append(" ").append(one);
    std::string text = "unknown key '";
    fail(text.append(key).append("'; known:").append(known));
  }
}

void JsonObject::expectFormat(std::string_view format) const {
  if (at("format") != format) fail("format is not '" + std::string(format) + "'");
}

std::int64_t JsonObject::integer(const char* key) const {
  return whole<std::int64_t>(at(key), *this, key);
}

std::uint64_t JsonObject::hash(const char* key) const {
  return whole<std::uint64_t>(at(key), *this, key);
}

std::int64_t JsonObject::integerOr(const char* key, std::int64_t otherwise) const {
  return has(key) ? integer(key) : otherwise;
}

std::int32_t JsonObject::idOr(const char* key, std::int32_t otherwise) const {
  return has(key) ? whole<std::int32_t>(at(key), *this, key) : otherwise;
}

bool JsonObject::booleanOr(const char* key, bool otherwise) const {
  if (!has(key)) return otherwise;
  if (!at(key).is_boolean()) fail(std::string(key) + ": expected true or false");
  return at(key).get<bool>();
}

std::string JsonObject::textOr(const char* key, const std::string& otherwise) const {
  if (!has(key)) return otherwise;
  if (!at(key).is_string()) fail(std::string(key) + ": expected a text");
  return at(key).get<std::string>();
}

const json& JsonObject::list(const char* key) const {
  const json& items = at(key);
  if (!items.is_array()) fail(std::string(key) + ": expected a list");
  return items;
}

std::vector<std::int32_t> JsonObject::ids(const char* key) const {
  return wholeList<std::int32_t>(list(key), *this, key);
}

std::vector<std::int64_t> JsonObject::integers(const char* key) const {
  return wholeList<std::int64_t>(list(key), *this, key);
}

std::vector<double> JsonObject::numbers(const char* key) const {
  std::vector<double> numbers;
  for (const json& item : list(key)) {
    if (!item.is_number()) fail(itemName(key, numbers.size()) + ": expected a number");
    numbers.push_back(item.get<double>());
  }
  return numbers;
}

}  // namespace ebbtide::scheduler
