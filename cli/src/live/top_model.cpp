#include "live/top_model.hpp"

#include <algorithm>
#include <cctype>
#include <map>
#include <tuple>
#include <utility>

#include "ebbtide/scheduler/budget_form.hpp"
#include "terminal_text.hpp"

namespace ebbtide::cli {
namespace {

constexpr std::size_t kLongestSize = 24;  // letters of a budget that is typed

// What a rank is sorted by, the largest first; less than all where it is not known.
double weight(const RankRow& status, TopModel::Sort sort) {
  constexpr double kUnknown = -1;
  switch (sort) {
    case TopModel::Sort::kRank:
      break;
    case TopModel::Sort::kMemory: {  // ranks without a budget by their bytes, below all with one
      if (!status.memory.peak_bytes) return kUnknown;
      const auto peak = static_cast<double>(*status.boundedPeakBytes());
      if (!status.memory.budget_bytes || *status.memory.budget_bytes <= 0) return peak * 1e-30;
      return peak / static_cast<double>(*status.memory.budget_bytes);
    }
    case TopModel::Sort::kStepTime:
      return status.steps.median_seconds.value_or(kUnknown);
    case TopModel::Sort::kRecompute:
      return status.recompute_ratio.value_or(kUnknown);
    case TopModel::Sort::kViolations:
      return static_cast<double>(status.violations.value_or(-1));
  }
  return 0;
}

}  // namespace

void TopModel::setRanks(std::vector<RankRow> ranks) {
  std::optional<Place> kept;
  if (selected_ < rows_.size()) kept = placeOf(rows_[selected_]);
  rows_ = std::move(ranks);
  sortRows(kept);
}

void TopModel::sortRows(const std::optional<Place>& kept) {
  std::map<std::string, double> heaviest;  // by job: jobs without a difference stay by name
  for (const RankRow& row : rows_) {
    const double own = weight(row, sort_);
    const auto [at, is_new] = heaviest.emplace(row.job, own);
    if (!is_new) at->second = std::max(at->second, own);
  }
  using Key = std::tuple<double, const std::string&, double, int>;
  const auto key = [&](const RankRow& row) {
    return Key(-heaviest.at(row.job), row.job, -weight(row, sort_), row.rank);
  };
  std::stable_sort(rows_.begin(), rows_.end(),
                   [&](const RankRow& a, const RankRow& b) { return key(a) < key(b); });
  jobs_ = heaviest.size();
  setLines();
  const auto found = std::find_if(rows_.begin(), rows_.end(), [&](const RankRow& row) {
    return kept && placeOf(row) == *kept;
  });
  if (found != rows_.end()) selected_ = static_cast<std::size_t>(found - rows_.begin());
  selected_ = std::min(selected_, rows_.empty() ? 0 : rows_.size() - 1);
}

void TopModel::setLines() {
  lines_.clear();
  for (std::size_t row = 0; row < rows_.size(); ++row) {
    const bool begins = row == 0 || rows_[row].job != rows_[row - 1].job;
    if (begins && jobs_ > 1) lines_.push_back({row, true});
    lines_.push_back({row, false});
  }
}

std::size_t TopModel::lineOf(std::size_t row) const {
  const auto found = std::find_if(lines_.begin(), lines_.end(), [&](const TopLine& line) {
    return line.row == row && !line.is_heading;
  });
  return found == lines_.end() ? 0 : static_cast<std::size_t>(found - lines_.begin());
}

std::span<const RankRow> TopModel::section(std::size_t first_row) const {
  std::size_t end = first_row;
  while (end < rows_.size() && rows_[end].job == rows_[first_row].job) ++end;
  return std::span(rows_).subspan(first_row, end - first_row);
}

std::string TopModel::promptedName() const {
  const std::string rank = "rank " + std::to_string(prompted_.rank);
  return jobs_ > 1 ? rank + " of " + forColumns(prompted_.job) : rank;
}

std::size_t TopModel::lastFirst(int visible) const {
  const auto window = static_cast<std::size_t>(std::max(visible, 1));
  return lines_.size() > window ? lines_.size() - window : 0;
}

std::size_t TopModel::firstShown(int visible) const {
  const auto window = static_cast<std::size_t>(std::max(visible, 1));
  const std::size_t selected = lineOf(selected_);
  const std::size_t first = std::min({first_, lastFirst(visible), selected});
  return selected >= first + window ? selected - window + 1 : first;
}

// The next window begins where this one ends. Headings are not selected: a row beside is.
void TopModel::turnPage(long by, int visible) {
  if (lines_.empty()) return;
  const auto first = static_cast<long>(firstShown(visible));
  const auto last = static_cast<long>(lines_.size()) - 1;
  const auto at = [this](long line) { return lines_[static_cast<std::size_t>(line)]; };
  long line = std::clamp(static_cast<long>(lineOf(selected_)) + by, 0L, last);
  const long next = std::clamp(first + by, 0L, static_cast<long>(lastFirst(visible)));
  first_ = static_cast<std::size_t>(next);
  if (at(line).is_heading) {
    const long page = std::max(visible, 1);
    const bool down = line == 0 || (page == 1 ? by > 0 : line + 1 < next + page);
    line += down ? 1 : -1;
  }
  selected_ = at(line).row;
}

// The heading of a section whose first row is at the top of the window.
void TopModel::showHeading(int visible) {
  const std::size_t selected = lineOf(selected_);
  if (visible > 1 && selected > 0 && first_ == selected && lines_[selected - 1].is_heading) {
    --first_;
  }
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
      turnPage(-page, visible);
      break;
    case Kind::kPageDown:
      turnPage(page, visible);
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
  if (key.kind != Kind::kPageUp && key.kind != Kind::kPageDown) showHeading(visible);
  return action;
}

TopAction TopModel::pressLetter(char letter) {
  switch (letter) {
    case 'q':
      return {.kind = TopAction::Kind::kQuit, .rank = 0, .job = {}, .where = {}, .size = {}};
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
              .rank = prompted_.rank,
              .job = prompted_.job,
              .where = prompted_.where,
              .size = size};
    }
    default:
      break;
  }
  return {};
}

}  // namespace ebbtide::cli
