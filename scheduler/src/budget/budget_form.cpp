#include "ebbtide/scheduler/budget_form.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <stdexcept>
#include <string_view>

#include "base/size_text.hpp"
#include "base/trimmed_text.hpp"
#include "ebbtide/scheduler/byte_size.hpp"

namespace ebbtide::scheduler {
namespace {

constexpr const char* kForms = "24576MiB, 80%, auto, -50%, 60%peak, none, a number of bytes";
constexpr std::string_view kPeak = "peak";

std::string percentText(double percent) {
  std::array<char, 400> digits;  // of the smallest double
  const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), percent,
                                 std::chars_format::fixed);
  return std::string(digits.data(), end.ptr) + "%";
}

}  // namespace

BudgetForm BudgetForm::parse(const std::string& name, const std::string& given) {
  const SizeReader reader(name, given, kForms);
  std::string_view size = trimmed(given);
  const std::string lower = inLowerCase(size);
  if (lower == "none") return {};
  if (lower == "auto") return {.kind = Kind::kAvailable};
  if (size.starts_with('-')) {
    const SizeText less = reader.read(size.substr(1), "the activations");
    if (!less.is_share) throw reader.reject("a minus needs a percentage of the activations");
    return {.kind = Kind::kLessActivations, .percent = less.number};
  }
  if (lower.ends_with(kPeak)) {
    size.remove_suffix(kPeak.size());
    const SizeText share = reader.read(size, "the plain peak");
    if (!share.is_share) throw reader.reject("peak needs a percentage");
    return {.kind = Kind::kPeakShare, .percent = share.number};
  }
  const SizeText read = reader.read(size, "the memory");
  if (read.is_share) return {.kind = Kind::kMemoryShare, .percent = read.number};
  return {.kind = Kind::kBytes, .bytes = static_cast<Bytes>(read.number)};
}

std::string BudgetForm::text() const {
  switch (kind) {
    case Kind::kUnbounded:
      break;
    case Kind::kBytes:
      return std::to_string(bytes);
    case Kind::kMemoryShare:
      return percentText(percent);
    case Kind::kAvailable:
      return "auto";
    case Kind::kLessActivations:
      return "-" + percentText(percent);
    case Kind::kPeakShare:
      return percentText(percent) + std::string(kPeak);
  }
  return "none";
}

std::optional<Bytes> resolve(const BudgetForm& form, const BudgetFacts& facts) {
  const auto share = [&form](std::optional<Bytes> whole) -> std::optional<Bytes> {
    if (!whole) return std::nullopt;
    return std::max<Bytes>(1, shareOf(form.percent, *whole));
  };
  switch (form.kind) {
    case BudgetForm::Kind::kUnbounded:
      break;
    case BudgetForm::Kind::kBytes:
      return form.bytes;
    case BudgetForm::Kind::kMemoryShare:
      return share(facts.memory_bytes);
    case BudgetForm::Kind::kAvailable:
      if (!facts.available_bytes) break;
      return std::max<Bytes>(1, *facts.available_bytes);
    case BudgetForm::Kind::kLessActivations:
      if (!facts.plain_peak_bytes || !facts.activation_bytes) break;
      return std::max<Bytes>(1, facts.others_bytes + *facts.plain_peak_bytes -
                                    shareOf(form.percent, *facts.activation_bytes));
    case BudgetForm::Kind::kPeakShare:
      if (!facts.plain_peak_bytes) break;
      return facts.others_bytes + *share(facts.plain_peak_bytes);
  }
  return std::nullopt;
}

void refuseFewBytes(const std::string& name, const std::string& given, const std::string& entry) {
  constexpr Bytes kLeast = Bytes{1} << 20;
  const std::string size(trimmed(given));
  if (size.find_first_not_of("0123456789.") != std::string::npos) return;
  const Bytes bytes = parseSize(name, size, kLeast);
  if (bytes >= kLeast) return;
  throw std::invalid_argument(
      name + "=" + (entry.empty() ? size : entry) + ": these are " + formatBytes(bytes) +
      "; did you mean " + (bytes <= 100 ? size + "%, " : "") + size + "MiB or " + size + "GiB?");
}

}  // namespace ebbtide::scheduler
