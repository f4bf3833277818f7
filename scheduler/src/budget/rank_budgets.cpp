#include "ebbtide/scheduler/rank_budgets.hpp"

#include <algorithm>
#include <charconv>
#include <stdexcept>
#include <string_view>

#include "base/size_text.hpp"
#include "base/trimmed_text.hpp"
#include "ebbtide/scheduler/byte_size.hpp"
#include "ebbtide/scheduler/shown_text.hpp"

namespace ebbtide::scheduler {
namespace {

// "8" or "8-15" as a whole; nothing else.
std::optional<std::pair<std::int32_t, std::int32_t>> rangeOf(std::string_view text) {
  const auto number = [&](std::string_view digits) -> std::optional<std::int32_t> {
    std::int32_t value = 0;
    const char* end = digits.data() + digits.size();
    const auto parsed = std::from_chars(digits.data(), end, value);
    if (parsed.ec != std::errc() || parsed.ptr != end || value < 0) return std::nullopt;
    return value;
  };
  const std::size_t dash = text.find('-');
  const auto first = number(text.substr(0, dash));
  const auto last = dash == std::string_view::npos ? first : number(text.substr(dash + 1));
  if (!first || !last || *last < *first) return std::nullopt;
  return std::pair{*first, *last};
}

// "1,5GiB"
bool isDecimalComma(std::string_view text) {
  const std::size_t comma = text.find(',');
  const auto digit = [text](std::size_t at) {
    return at < text.size() && text[at] >= '0' && text[at] <= '9';
  };
  return comma > 0 && comma != std::string_view::npos && digit(comma - 1) && digit(comma + 1) &&
         text.find_first_of(",=", comma + 1) == std::string_view::npos;
}

}  // namespace

RankBudgets RankBudgets::parse(const std::string& name, const std::string& text) {
  const auto reject = [&](const std::string& why) {
    return std::invalid_argument(name + "=" + shownText(text) + " " + why +
                                 "; write for example 30GiB or default=80%,rank0=24GiB,"
                                 "rank8-15=20GiB,stage1=70GiB");
  };
  RankBudgets budgets;
  if (text.find('=') == std::string::npos && text.find(',') == std::string::npos) {
    const std::string size(trimmed(text));
    budgets.entries_.push_back({Key::kDefault, 0, 0, size, BudgetForm::parse(name, size)});
    return budgets;
  }
  std::vector<std::string> keys;
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find(',', begin), text.size());
    const std::string entry = text.substr(begin, end - begin);
    begin = end + 1;
    const std::size_t equals = entry.find('=');
    if (equals == std::string::npos) {
      if (isDecimalComma(text)) throw reject("has a comma: the decimals follow a point");
      throw reject("has the entry '" + shownText(entry) + "' without a key");
    }
    const std::string key = inLowerCase(trimmed(entry.substr(0, equals)));
    const std::string size(trimmed(entry.substr(equals + 1)));
    if (std::find(keys.begin(), keys.end(), key) != keys.end()) {
      throw reject("names " + shownText(key) + " twice");
    }
    keys.push_back(key);
    const BudgetForm form = BudgetForm::parse(name + ": " + shownText(key), size);
    const bool is_stage = key.starts_with("stage");
    if (key == "default") {
      budgets.entries_.push_back({Key::kDefault, 0, 0, size, form});
    } else if (const auto range = is_stage                  ? rangeOf(key.substr(5))
                                  : key.starts_with("rank") ? rangeOf(key.substr(4))
                                                            : std::nullopt) {
      budgets.entries_.push_back(
          {is_stage ? Key::kStage : Key::kRank, range->first, range->second, size, form});
    } else {
      throw reject("has the unknown key '" + shownText(key) + "'");
    }
  }
  return budgets;
}

void RankBudgets::refuseFewBytes(const std::string& name) const {
  for (const Entry& entry : entries_) {
    const bool alone = entries_.size() == 1 && entry.key == Key::kDefault;
    scheduler::refuseFewBytes(name, entry.size, alone ? "" : entry.text());
  }
}

std::optional<std::string> RankBudgets::textOf(std::int32_t rank,
                                               const std::vector<std::int32_t>& stages) const {
  const Entry* by_key[3] = {};
  for (const Entry& entry : entries_) {
    const bool holds = entry.key == Key::kDefault ||
                       (entry.key == Key::kRank && entry.covers(rank)) ||
                       (entry.key == Key::kStage &&
                        std::any_of(stages.begin(), stages.end(),
                                    [&entry](std::int32_t stage) { return entry.covers(stage); }));
    if (holds) by_key[static_cast<std::size_t>(entry.key)] = &entry;
  }
  for (const Key key : {Key::kRank, Key::kStage, Key::kDefault}) {
    const Entry* const entry = by_key[static_cast<std::size_t>(key)];
    if (entry != nullptr) return entry->form.isNone() ? std::nullopt : std::optional(entry->size);
  }
  return std::nullopt;
}

bool RankBudgets::dependsOnStages(std::int32_t rank) const {
  bool stage = false;
  for (const Entry& entry : entries_) {
    if (entry.key == Key::kRank && entry.covers(rank)) return false;
    stage = stage || entry.key == Key::kStage;
  }
  return stage;
}

bool RankBudgets::isNone() const {
  return std::all_of(entries_.begin(), entries_.end(),
                     [](const Entry& entry) { return entry.form.isNone(); });
}

bool RankBudgets::namesStages() const {
  return std::any_of(entries_.begin(), entries_.end(),
                     [](const Entry& entry) { return entry.key == Key::kStage; });
}

bool RankBudgets::namesRanks() const {
  return std::any_of(entries_.begin(), entries_.end(),
                     [](const Entry& entry) { return entry.key == Key::kRank; });
}

bool RankBudgets::sharesMemory() const {
  return std::any_of(entries_.begin(), entries_.end(),
                     [](const Entry& entry) { return entry.form.isOfMemory(); });
}

bool RankBudgets::isOfSteps() const {
  return std::any_of(entries_.begin(), entries_.end(),
                     [](const Entry& entry) { return entry.form.isOfSteps(); });
}

std::vector<std::string> RankBudgets::forNoRankOf(std::int32_t ranks) const {
  std::vector<std::string> texts;
  for (const Entry& entry : entries_) {
    if (entry.key == Key::kRank && entry.first >= ranks) texts.push_back(entry.text());
  }
  return texts;
}

std::vector<std::string> RankBudgets::forNoStageOf(const std::vector<std::int32_t>& stages) const {
  std::vector<std::string> texts;
  for (const Entry& entry : entries_) {
    const bool covers = std::any_of(stages.begin(), stages.end(),
                                    [&](std::int32_t stage) { return entry.covers(stage); });
    if (entry.key == Key::kStage && !covers) texts.push_back(entry.text());
  }
  return texts;
}

std::string RankBudgets::Entry::text() const {
  if (key == Key::kDefault) return "default=" + size;
  std::string text = (key == Key::kRank ? "rank" : "stage") + std::to_string(first);
  if (last != first) text += "-" + std::to_string(last);
  return text + "=" + size;
}

}  // namespace ebbtide::scheduler
