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

struct Decoded {
  std::string text = {};
  std::string problem = {};  // not empty: it cannot be decoded
};

Decoded decode(std::string_view text, bool plus_is_space) {
  std::string decoded;
  for (std::size_t i = 0; i < text.size(); ++i) {
    char c = text[i];
    if (c == '%') {
      const int high = i + 2 < text.size() ? hexValue(text[i + 1]) : -1;
      const int low = i + 2 < text.size() ? hexValue(text[i + 2]) : -1;
      if (high < 0 || low < 0) {
        return {.problem = "the request's target has a % without two hexadecimal digits"};
      }
      c = static_cast<char>(high * 16 + low);
      i += 2;
    } else if (c == '+' && plus_is_space) {
      c = ' ';
    }
    if (isControl(c)) return {.problem = "the request's target has a control character"};
    decoded += c;
  }
  return {.text = std::move(decoded)};
}

}  // namespace

RequestTargetResult parseTarget(std::string_view text) {
  if (!text.starts_with('/')) return {.problem = "the request's target is not a path"};
  const std::size_t mark = text.find('?');
  Decoded path = decode(text.substr(0, mark), false);
  if (!path.problem.empty()) return {.problem = std::move(path.problem)};
  RequestTarget target{.path = std::move(path.text), .query = {}};
  std::string_view rest = mark == std::string_view::npos ? "" : text.substr(mark + 1);
  while (!rest.empty()) {
    const std::string_view pair = rest.substr(0, rest.find('&'));
    rest.remove_prefix(pair.size() + (pair.size() < rest.size() ? 1 : 0));
    if (pair.empty()) continue;
    const std::size_t equals = pair.find('=');
    Decoded name = decode(pair.substr(0, equals), true);
    if (!name.problem.empty()) return {.problem = std::move(name.problem)};
    Decoded value;
    if (equals != std::string_view::npos) value = decode(pair.substr(equals + 1), true);
    if (!value.problem.empty()) return {.problem = std::move(value.problem)};
    if (!target.query.emplace(std::move(name.text), std::move(value.text)).second) {
      return {.problem = "the request's query has a name twice"};
    }
  }
  return {.target = std::move(target)};
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
