// TopModel: what `ebbtide top` shows and how keys change it. No terminal, no clock, no network.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "live/rank_status.hpp"

namespace ebbtide::cli {

struct TopKey {
  enum class Kind {
    kLetter,
    kUp,
    kDown,
    kPageUp,
    kPageDown,
    kHome,
    kEnd,
    kEnter,
    kEscape,
    kBackspace
  };
  Kind kind = Kind::kLetter;
  char letter = 0;  // of kLetter, printable ASCII
};

// What a key asks of the program.
struct TopAction {
  enum class Kind { kNone, kQuit, kSetBudget };
  Kind kind = Kind::kNone;
  int rank = 0;  // of kSetBudget, with the node's endpoint, and the size as it was typed
  std::string where, size;
};

class TopModel {
 public:
  enum class Sort { kRank, kMemory, kStepTime, kRecompute, kViolations };
  enum class Trend { kStepTime, kPeak };

  // The newest answers. The selection stays with its rank.
  void setRanks(std::vector<RankStatus> ranks);
  // `visible`: rows of ranks that fit on the screen, at least 1.
  TopAction press(const TopKey& key, int visible);

  const std::vector<RankStatus>& rows() const { return rows_; }  // sorted
  std::size_t selected() const { return selected_; }
  // The first row of a window of `visible` ones that has the selection in it.
  std::size_t firstShown(int visible) const;
  Sort sort() const { return sort_; }
  Trend trend() const { return trend_; }
  bool showsHelp() const { return help_; }
  const std::optional<std::string>& prompt() const { return prompt_; }  // what was typed so far
  int promptedRank() const { return prompted_.first; }

  std::string title;    // "job port-29500"
  std::string message;  // what came of the last change, and what is wrong with all of it

 private:
  using Place = std::pair<int, std::string>;  // rank and node: whom a row is of
  static Place placeOf(const RankStatus& row) { return {row.rank, row.where}; }

  void sortRows(const std::optional<Place>& kept);
  void move(long by);
  TopAction pressInPrompt(const TopKey& key);
  TopAction pressLetter(char letter);

  std::vector<RankStatus> rows_;
  std::size_t selected_ = 0, first_ = 0;
  Sort sort_ = Sort::kRank;
  Trend trend_ = Trend::kStepTime;
  bool help_ = false;
  std::optional<std::string> prompt_;
  Place prompted_;  // of whom a budget is being typed
};

}  // namespace ebbtide::cli
