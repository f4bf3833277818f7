#include "terminal_text.hpp"

#include <cstddef>
#include <cstdint>

namespace ebbtide::cli {
namespace {

struct Letter {
  std::uint32_t code = 0;
  std::size_t bytes = 0;  // 0: not UTF-8
};

// The code point at `at`; overlong forms, surrogates and cut ones are none.
Letter letterAt(std::string_view text, std::size_t at) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[at + i]); };
  const unsigned char first = byte(0);
  if (first < 0x80) return {first, 1};
  const std::size_t bytes = first >= 0xf0 ? 4 : first >= 0xe0 ? 3 : first >= 0xc2 ? 2 : 0;
  if (bytes == 0 || first > 0xf4 || at + bytes > text.size()) return {};
  std::uint32_t code = first & (0x7fU >> bytes);
  for (std::size_t i = 1; i < bytes; ++i) {
    if ((byte(i) & 0xc0U) != 0x80) return {};
    code = code << 6 | (byte(i) & 0x3fU);
  }
  const bool overlong = (bytes == 3 && code < 0x800) || (bytes == 4 && code < 0x10000);
  if (overlong || code > 0x10ffff || (code >= 0xd800 && code <= 0xdfff)) return {};
  return {code, bytes};
}

// Controls, and what has no width but reorders, joins or ends lines.
bool isHarmful(std::uint32_t code) {
  const auto within = [&](std::uint32_t low, std::uint32_t high) {
    return code >= low && code <= high;
  };
  return code < 0x20 || within(0x7f, 0x9f) || code == 0xad || code == 0x61c ||
         within(0x200b, 0x200f) || within(0x2028, 0x202e) || within(0x2060, 0x206f) ||
         code == 0xfeff || within(0xfff9, 0xfffb) || within(0xe0000, 0xe0fff);
}

std::string cleaned(std::string_view text, bool ascii) {
  std::string result;
  for (std::size_t at = 0; at < text.size();) {
    const Letter letter = letterAt(text, at);
    const bool shown =
        letter.bytes > 0 && !isHarmful(letter.code) && (!ascii || letter.code < 0x80);
    shown ? void(result += text.substr(at, letter.bytes)) : void(result += '?');
    at += letter.bytes > 0 ? letter.bytes : 1;
  }
  return result;
}

}  // namespace

std::string forTerminal(std::string_view text) {
  return cleaned(text, false);
}

std::string forColumns(std::string_view text) {
  return cleaned(text, true);
}

}  // namespace ebbtide::cli
