#include "fit/value_search.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <stdexcept>
#include <string_view>

#include "terminal_text.hpp"

namespace ebbtide::cli {
namespace {

constexpr std::int64_t kLargest = 1'000'000'000;
constexpr int kInterpolations = 4;  // then it doubles, or takes the middle: needs grow unevenly
constexpr std::string_view kPlace = "{}";

std::int64_t numberIn(std::string_view word, const std::string& text) {
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), value);
  if (error == std::errc() && end == word.data() + word.size() && value >= 1 && value <= kLargest)
    return value;
  throw std::invalid_argument("--values " + forTerminal(text) +
                              ": write whole numbers from 1, as a list 8,16,32 or a range 8..64");
}

}  // namespace

ValueSearch ValueSearch::parse(const std::string& text) {
  ValueSearch search;
  const std::string_view view(text);
  if (const std::size_t dots = view.find(".."); dots != std::string_view::npos) {
    search.is_range_ = true;
    search.values_ = {numberIn(view.substr(0, dots), text), numberIn(view.substr(dots + 2), text)};
    if (search.values_[0] > search.values_[1]) {
      throw std::invalid_argument("--values " + forTerminal(text) +
                                  ": the range ends before it begins");
    }
    return search;
  }
  for (std::size_t begin = 0; begin <= view.size();) {
    const std::size_t end = std::min(view.find(',', begin), view.size());
    const std::int64_t value = numberIn(view.substr(begin, end - begin), text);
    if (std::find(search.values_.begin(), search.values_.end(), value) == search.values_.end())
      search.values_.push_back(value);
    begin = end + 1;
  }
  return search;
}

std::optional<std::int64_t> ValueSearch::next(std::int64_t budget_bytes) const {
  if (is_range_) return nextOfRange(budget_bytes);
  if (tried_.size() == values_.size()) return std::nullopt;
  return values_[tried_.size()];
}

std::optional<std::int64_t> ValueSearch::largest() const {
  std::optional<std::int64_t> most;
  for (const Tried& one : tried_) {
    if (one.fits && (!most || one.value > *most)) most = one.value;
  }
  return most;
}

std::optional<double> ValueSearch::crossing(std::int64_t budget_bytes) const {
  std::vector<Tried> known;
  for (const Tried& one : tried_) {
    if (one.needed_bytes > 0) known.push_back(one);
  }
  if (known.size() < 2) return std::nullopt;
  // The two that are nearest to the budget.
  std::sort(known.begin(), known.end(), [&](const Tried& a, const Tried& b) {
    return std::abs(a.needed_bytes - budget_bytes) < std::abs(b.needed_bytes - budget_bytes);
  });
  const auto bytes = static_cast<double>(known[1].needed_bytes - known[0].needed_bytes);
  const auto values = static_cast<double>(known[1].value - known[0].value);
  if (!(bytes / values > 0)) return std::nullopt;
  return static_cast<double>(known[0].value) +
         static_cast<double>(budget_bytes - known[0].needed_bytes) * values / bytes;
}

// Since there is a value that does not fit; before, those that went on by less than doubling.
int ValueSearch::interpolations() const {
  int count = 0;
  std::int64_t low = 0;
  bool bounded = false;
  for (const Tried& one : tried_) {
    const bool is_short = low > 0 && one.value < 2 * low;
    if (bounded || (one.fits && is_short)) ++count;
    if (!one.fits && !bounded) {
      bounded = true;
      count = 0;
    }
    if (one.fits) low = std::max(low, one.value);
  }
  return count;
}

// Values that fit though their needs exceed the budget: a step of theirs had more than the others.
bool ValueSearch::isRefuted(std::int64_t crossed, std::int64_t low) const {
  const bool stepped = std::any_of(tried_.begin(), tried_.end(), [low](const Tried& one) {
    return one.fits && one.value == low - 1;
  });
  return crossed < low || (crossed == low && stepped);
}

std::optional<std::int64_t> ValueSearch::nextOfRange(std::int64_t budget_bytes) const {
  if (tried_.empty()) return values_[0];
  const auto low = largest();
  if (!low) return std::nullopt;  // the smallest one does not fit
  std::int64_t above = values_[1] + 1;
  bool fails = false;  // the smallest one that does not fit: nothing is known of its needs
  for (const Tried& one : tried_) {
    if (one.fits || one.value >= above) continue;
    above = one.value;
    fails = one.needed_bytes == 0;
  }
  if (above - *low <= 1) return std::nullopt;
  const bool bounded = above <= values_[1];
  std::int64_t guess = bounded ? *low + (above - *low) / 2 : 2 * *low;
  const auto at = crossing(budget_bytes);
  if (at && !fails && interpolations() < kInterpolations) {
    const auto crossed =
        static_cast<std::int64_t>(std::clamp(std::floor(*at), 0.0, 2.0 * kLargest));
    if (!isRefuted(crossed, *low)) guess = bounded ? crossed : std::min(guess, crossed);
  }
  return std::clamp(guess, *low + 1, above - 1);
}

std::vector<std::string> withValue(std::vector<std::string> command, std::int64_t value) {
  bool found = false;
  for (std::string& word : command) {
    for (std::size_t at = 0; (at = word.find(kPlace, at)) != std::string::npos;) {
      const std::string text = std::to_string(value);
      word.replace(at, kPlace.size(), text);
      at += text.size();
      found = true;
    }
  }
  if (!found) {
    throw std::invalid_argument(
        "--values: no word of the command has {}, which stands for the value. Type for example: "
        "ebbtide fit --values 8,16 -- python train.py --batch-size {}");
  }
  return command;
}

}  // namespace ebbtide::cli
