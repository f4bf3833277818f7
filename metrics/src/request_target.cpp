#include "request_target.hpp"

#include <utility>

namespace ebbtide::metrics {
namespace {

int hexValue(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

bool isControl(char c) {
  return static_cast<unsigned char>(c) < 0x20 || c == 0x7f;
}

bool decode(std::string_view text, bool plus_is_space, std::string& decoded, std::string& why) {
  decoded.clear();
  for (std::size_t i = 0; i < text.size(); ++i) {
    char c = text[i];
    if (c == '%') {
      const int high = i + 2 < text.size() ? hexValue(text[i + 1]) : -1;
      const int low = i + 2 < text.size() ? hexValue(text[i + 2]) : -1;
      if (high < 0 || low < 0) {
        why = "the request's target has a % without two hexadecimal digits";
        return false;
      }
      c = static_cast<char>(high * 16 + low);
      i += 2;
    } else if (c == '+' && plus_is_space) {
      c = ' ';
    }
    if (isControl(c)) {
      why = "the request's target has a control character";
      return false;
    }
    decoded += c;
  }
  return true;
}

}  // namespace

bool parseTarget(std::string_view text, RequestTarget& target, std::string& why) {
  target = {};
  if (!text.starts_with('/')) {
    why = "the request's target is not a path";
    return false;
  }
  const std::size_t mark = text.find('?');
  if (!decode(text.substr(0, mark), false, target.path, why)) return false;
  std::string_view rest = mark == std::string_view::npos ? "" : text.substr(mark + 1);
  while (!rest.empty()) {
    const std::string_view pair = rest.substr(0, rest.find('&'));
    rest.remove_prefix(pair.size() + (pair.size() < rest.size() ? 1 : 0));
    if (pair.empty()) continue;
    const std::size_t equals = pair.find('=');
    std::string name;
    std::string value;
    if (!decode(pair.substr(0, equals), true, name, why)) return false;
    if (equals != std::string_view::npos && !decode(pair.substr(equals + 1), true, value, why)) {
      return false;
    }
    if (!target.query.emplace(std::move(name), std::move(value)).second) {
      why = "the request's query has a name twice";
      return false;
    }
  }
  return true;
}

std::string percentEncoded(std::string_view text) {
  constexpr std::string_view kHex = "0123456789ABCDEF";
  constexpr std::string_view kPlain =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~";
  std::string encoded;
  for (const char c : text) {
    if (kPlain.find(c) != std::string_view::npos) {
      encoded += c;
      continue;
    }
    const auto byte = static_cast<unsigned char>(c);
    encoded += {'%', kHex[byte >> 4], kHex[byte & 15]};
  }
  return encoded;
}

}  // namespace ebbtide::metrics
