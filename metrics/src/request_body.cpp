#include "request_body.hpp"

#include <nlohmann/json.hpp>
#include <set>
#include <vector>

namespace ebbtide::metrics {
namespace {

using Json = nlohmann::json;

constexpr std::size_t kShown = 64;  // letters of a name

// Stops at the first name that is there twice.
class Names : public nlohmann::json_sax<Json> {
 public:
  const std::string& twice() const { return twice_; }
  bool found() const { return found_; }

  bool start_object(std::size_t) override {
    names_.emplace_back();
    return true;
  }
  bool end_object() override {
    names_.pop_back();
    return true;
  }
  bool key(string_t& name) override {
    if (names_.back().insert(name).second) return true;
    found_ = true;
    twice_ = name;
    return false;
  }

  bool null() override { return true; }
  bool boolean(bool) override { return true; }
  bool number_integer(number_integer_t) override { return true; }
  bool number_unsigned(number_unsigned_t) override { return true; }
  bool number_float(number_float_t, const string_t&) override { return true; }
  bool string(string_t&) override { return true; }
  bool binary(binary_t&) override { return true; }
  bool start_array(std::size_t) override { return true; }
  bool end_array() override { return true; }
  bool parse_error(std::size_t, const std::string&, const Json::exception&) override {
    return false;
  }

 private:
  std::vector<std::set<std::string>> names_;  // of the objects that are open
  std::string twice_;
  bool found_ = false;
};

}  // namespace

std::string problemOfBody(const std::string& body) {
  if (body.find('\0') != std::string::npos) return "the body has a NUL byte";
  Names names;
  Json::sax_parse(body, &names);
  if (!names.found()) return "";
  return "the body has \"" + names.twice().substr(0, kShown) + "\" twice";
}

}  // namespace ebbtide::metrics
