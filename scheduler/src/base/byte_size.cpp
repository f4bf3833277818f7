#include "ebbtide/scheduler/byte_size.hpp"

#include <array>
#include <cctype>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <optional>
#include <stdexcept>
#include <string_view>

#include "base/size_text.hpp"
#include "base/trimmed_text.hpp"
#include "ebbtide/scheduler/shown_text.hpp"

namespace ebbtide::scheduler {
namespace {

constexpr std::string_view kPrefixes = "kmgt";
constexpr double kLeastFraction = 1e-6;  // that may be meant as a share

// Bytes of one "kib" or "ki" and so on; nothing for another unit.
std::optional<double> scaleOf(std::string_view unit) {
  if (unit.empty()) return 1.0;
  const std::size_t prefix = kPrefixes.find(unit[0]);
  const std::string_view rest = unit.substr(1);
  if (prefix == std::string_view::npos || (rest != "i" && rest != "ib")) return std::nullopt;
  return static_cast<double>(Bytes{1024} << (10 * prefix));
}

bool isDecimalUnit(std::string_view unit) {
  return (unit.size() == 1 || (unit.size() == 2 && unit[1] == 'b')) &&
         kPrefixes.find(unit[0]) != std::string_view::npos;
}

// ",5gib" of "1,5GiB"
bool isDecimalComma(std::string_view rest) {
  return rest.size() > 1 && rest[0] == ',' && std::isdigit(static_cast<unsigned char>(rest[1]));
}

// "80%" of 0.8
std::string shareText(double number) {
  std::array<char, 32> buffer;
  std::snprintf(buffer.data(), buffer.size(), "%.6g%%", 100 * number);
  return buffer.data();
}

}  // namespace

std::string inLowerCase(std::string_view text) {
  std::string lower(text);
  for (char& letter : lower)
    letter = static_cast<char>(std::tolower(static_cast<unsigned char>(letter)));
  return lower;
}

std::invalid_argument SizeReader::reject(const std::string& why, const char* before) const {
  return std::invalid_argument(name_ + "=" + shownText(given_) + ": " + why + ". " + before +
                               forms_);
}

SizeText SizeReader::read(std::string_view given, const char* whole) const {
  const std::string text(trimmed(given));
  if (text.empty() || !std::isdigit(static_cast<unsigned char>(text[0]))) {
    throw reject("this is not a size");
  }
  double number = 0;
  const auto [end, error] =
      std::from_chars(text.data(), text.data() + text.size(), number, std::chars_format::fixed);
  const std::string_view written(end, static_cast<std::size_t>(text.data() + text.size() - end));
  const std::string unit = inLowerCase(trimmed(written));
  if (error != std::errc()) throw reject("this is too large");
  if (isDecimalComma(written)) throw reject("the decimals follow a point");
  // "1e9" and "0x10" are numbers elsewhere.
  if (unit.find_first_of("xen") != std::string::npos) throw reject("this is not a size");
  if (unit == "%") {
    if (number > 100) throw reject(std::string("this is over 100 % of ") + whole);
    if (!(number > 0)) throw reject("this is not more than zero");
    return {number, true};
  }
  const auto scale = scaleOf(unit);
  if (!scale && isDecimalUnit(unit)) {
    const std::string number_alone(text.data(), end);
    const std::string shown = shownText(number_alone);
    const std::size_t prefix = kPrefixes.find(unit[0]);
    const std::string power = std::to_string(10 * (prefix + 1));
    throw reject("write " + shown + "KMGT"[prefix] + "iB (" + shown + " × 2^" + power + " bytes)",
                 "Other forms: ");
  }
  if (!scale) {
    throw reject("the unit '" + shownText(std::string(trimmed(written))) + "' is unknown");
  }
  const double bytes = number * *scale;
  const bool is_fraction = unit.empty() && number >= kLeastFraction && number < 1;
  if (is_fraction && text == trimmed(given_)) {
    throw std::invalid_argument(name_ + "=" + text + ": this is less than a byte; did you mean " +
                                shareText(number) + " or " + text + "GiB?");
  }
  if (!is_fraction && !(bytes >= 1)) throw reject("this is not more than zero");
  if (bytes > 9.0e18) throw reject("this is too large");
  return {bytes, false};
}

Bytes shareOf(double percent, Bytes whole) {
  if (percent == 100) return whole;  // a double may not hold it
  // In this order: in doubles 29 / 100 * 100 is less than 29.
  return static_cast<Bytes>(percent * static_cast<double>(whole) / 100);
}

Bytes parseSize(const std::string& name, const std::string& given, Bytes whole) {
  const SizeReader reader(name, given, "24576MiB, 80%, a number of bytes");
  const SizeText size = reader.read(given, "the memory");
  if (!size.is_share) return static_cast<Bytes>(size.number);
  const Bytes bytes = shareOf(size.number, whole);
  if (bytes < 1) throw reader.reject("this is not more than zero");
  return bytes;
}

std::string formatBytes(Bytes bytes) {
  constexpr double kKiB = 1024, kMiB = 1024 * kKiB, kGiB = 1024 * kMiB;
  const double value = static_cast<double>(bytes);
  const auto text = [](const char* format, double number) {
    std::array<char, 48> buffer;
    std::snprintf(buffer.data(), buffer.size(), format, number);
    return std::string(buffer.data());
  };
  if (std::abs(value) < kKiB) return std::to_string(bytes) + " B";
  if (std::abs(value) < kMiB) return text("%.1f KiB", value / kKiB);
  if (std::abs(value) < kGiB) return text("%.1f MiB", value / kMiB);
  return text("%.2f GiB", value / kGiB);
}

}  // namespace ebbtide::scheduler
