// Damaged copies of a valid text, the same for a seed.
#pragma once

#include <algorithm>
#include <array>
#include <cctype>
#include <random>
#include <string>
#include <string_view>

namespace ebbtide::scheduler {

class Mutations {
 public:
  explicit Mutations(std::uint64_t seed) : random_(seed) {}

  std::string apply(std::string text) {
    for (std::size_t i = 0, count = 1 + pick(3); i < count && !text.empty(); ++i) once(text);
    return text;
  }

 private:
  std::size_t pick(std::size_t size) { return static_cast<std::size_t>(random_() % size); }

  void once(std::string& text) {
    const std::size_t at = pick(text.size());
    const std::size_t length = std::min(1 + pick(12), text.size() - at);
    switch (pick(8)) {
      case 0:
        text[at] = static_cast<char>(pick(256));
        break;
      case 1:
        text.erase(at, length);
        break;
      case 2:
        text.insert(at, text.substr(at, length));
        break;
      case 3:
        text.insert(at, token());
        break;
      case 4:
        text.resize(at);
        break;
      default:  // most of what a reader checks is numbers
        replaceNumber(text, at);
    }
  }

  // The first number at or after a place.
  void replaceNumber(std::string& text, std::size_t at) {
    const auto digit = [&](std::size_t i) {
      return std::isdigit(static_cast<unsigned char>(text[i])) != 0;
    };
    while (at < text.size() && !digit(at)) ++at;
    std::size_t end = at;
    while (end < text.size() && digit(end)) ++end;
    text.replace(at, end - at, chance() ? token() : std::to_string(pick(10)));
  }

  bool chance() { return pick(2) == 0; }

  std::string token() {
    constexpr std::array<std::string_view, 24> kTokens = {"-1",
                                                          "0",
                                                          "1",
                                                          "2147483647",
                                                          "2147483648",
                                                          "4294967297",
                                                          "1e19",
                                                          "1e999",
                                                          "-0.5",
                                                          "9223372036854775807",
                                                          "18446744073709551615",
                                                          "1152921504606846976",
                                                          "null",
                                                          "true",
                                                          "NaN",
                                                          "99999999999999999999",
                                                          "[",
                                                          "]",
                                                          "{",
                                                          "}",
                                                          "\"",
                                                          ",",
                                                          "\n",
                                                          "\xff"};
    return std::string(kTokens[pick(kTokens.size())]);
  }

  std::mt19937_64 random_;
};

}  // namespace ebbtide::scheduler
