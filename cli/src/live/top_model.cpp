#include "live/top_model.hpp"

#include <algorithm>
#include <cctype>
#include <tuple>
#include <utility>

#include "ebbtide/scheduler/budget_form.hpp"

namespace ebbtide::cli {
namespace {

constexpr std::size_t kLongestSize = 24;  // letters of a budget that is typed

// What a rank is sorted by, the largest first; less than all where it is not known.
double weight(const RankStatus& status, TopModel::Sort sort) {
  constexpr double kUnknown = -1;
  switch (sort) {
    case TopModel::Sort::kRank:
      break;
    case TopModel::Sort::kMemory: {  // ranks without a budget by their bytes, below all with one
      if (!status.peak_bytes) return kUnknown;
      const auto peak = static_cast<double>(*status.boundedPeakBytes());
      if (!status.budget_bytes || *status.budget_bytes <= 0) return peak * 1e-30;
      return peak / static_cast<double>(*status.budget_bytes);
    }
    case TopModel::Sort::kStepTime:
      return status.median_step_seconds.value_or(kUnknown);
    case TopModel::Sort::kRecompute:
      return status.recompute_ratio.value_or(kUnknown);
    case TopModel::Sort::kViolations:
      return static_cast<double>(status.violations.value_or(-1));
  }
  return 0;
}

}  // namespace

void TopModel::setRanks(std::vector<RankStatus> ranks) {
  std::optional<Place> kept;
  if (selected_ < rows_.size()) kept = placeOf(rows_[selected_]);
  rows_ = std::move(ranks);
  sortRows(kept);
}

void TopModel::sortRows(const std::optional<Place>& kept) {
  std::stable_sort(rows_.begin(), rows_.end(), [&](const RankStatus& a, const RankStatus& b) {
    return std::tuple(-weight(a, sort_), a.rank) < std::tuple(-weight(b, sort_), b.rank);
  });
  const auto found = std::find_if(rows_.begin(), rows_.end(), [&](const RankStatus& row) {
    return kept && placeOf(row) == *kept;
  });
  if (found != rows_.end()) selected_ = static_cast<std::size_t>(found - rows_.begin());
  selected_ = std::min(selected_, rows_.empty() ? 0 : rows_.size() - 1);
}

std::size_t TopModel::firstShown(int visible) const {
  const auto window = static_cast<std::size_t>(std::max(visible, 1));
  const std::size_t last_first = rows_.size() > window ? rows_.size() - window : 0;
  std::size_t first = std::min(first_, last_first);
  first = std::min(first, selected_);
  return selected_ >= first + window ? selected_ - window + 1 : first;
}

void TopModel::move(long by) {
  const auto last = static_cast<long>(rows_.size()) - 1;
  selected_ = static_cast<std::size_t>(
      std::clamp(static_cast<long>(selected_) + by, 0L, std::max(last, 0L)));
}

TopAction TopModel::press(const TopKey& key, int visible) {
  using Kind = TopKey::Kind;
  if (prompt_) return pressInPrompt(key);
  if (help_) {
    help_ = false;
    return key.kind == Kind::kLetter && key.letter == 'q' ? pressLetter('q') : TopAction{};
  }
  message.clear();
  const long page = std::max(visible, 1);
  TopAction action;
  switch (key.kind) {
    case Kind::kUp:
      move(-1);
      break;
    case Kind::kDown:
      move(1);
      break;
    case Kind::kPageUp:
      move(-page);
      break;
    case Kind::kPageDown:
      move(page);
      break;
    case Kind::kHome:
      selected_ = 0;
      break;
    case Kind::kEnd:
      selected_ = rows_.empty() ? 0 : rows_.size() - 1;
      break;
    case Kind::kLetter:
      action = pressLetter(key.letter);
      break;
    default:
      break;
  }
  first_ = firstShown(visible);
  return action;
}

TopAction TopModel::pressLetter(char letter) {
  switch (letter) {
    case 'q':
      return {.kind = TopAction::Kind::kQuit, .rank = 0, .where = {}, .size = {}};
    case 's': {
      sort_ =
          sort_ == Sort::kViolations ? Sort::kRank : static_cast<Sort>(static_cast<int>(sort_) + 1);
      if (!rows_.empty()) sortRows(placeOf(rows_[selected_]));
      break;
    }
    case 'k':
      move(-1);
      break;
    case 'j':
      move(1);
      break;
    case 't':
      trend_ = trend_ == Trend::kStepTime ? Trend::kPeak : Trend::kStepTime;
      break;
    case 'b':
      if (selected_ < rows_.size() && rows_[selected_].rank >= 0) {
        prompt_ = "";
        prompted_ = placeOf(rows_[selected_]);
      }
      break;
    case '?':
    case 'h':
      help_ = true;
      break;
    default:
      break;
  }
  return {};
}

TopAction TopModel::pressInPrompt(const TopKey& key) {
  using Kind = TopKey::Kind;
  std::string& typed = *prompt_;
  switch (key.kind) {
    case Kind::kLetter:
      if (std::isalnum(static_cast<unsigned char>(key.letter)) != 0 || key.letter == '%' ||
          key.letter == '.' || key.letter == '-') {
        if (typed.size() < kLongestSize) typed += key.letter;
      }
      break;
    case Kind::kBackspace:
      if (!typed.empty()) typed.pop_back();
      break;
    case Kind::kEscape:
      prompt_.reset();
      message.clear();
      break;
    case Kind::kEnter: {
      const std::string size = std::exchange(prompt_, std::nullopt).value();
      message.clear();
      if (size.empty()) break;
      try {
        static_cast<void>(scheduler::BudgetForm::parse("budget", size));
        scheduler::refuseFewBytes("budget", size);
      } catch (const std::invalid_argument& error) {
        message = error.what();
        prompt_ = size;  // to be corrected
        break;
      }
      return {.kind = TopAction::Kind::kSetBudget,
              .rank = prompted_.first,
              .where = prompted_.second,
              .size = size};
    }
    default:
      break;
  }
  return {};
}

}  // namespace ebbtide::cli
