// TopModel: what `ebbtide top` shows and how keys change it. No terminal, no clock, no network.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "live/rank_row.hpp"

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
  int rank = 0;  // of kSetBudget, with its job or its node's endpoint, and the size as it was typed
  std::string job, where, size;
};

// A row's line, or the heading of the section that begins with it.
struct TopLine {
  std::size_t row = 0;
  bool is_heading = false;
};

class TopModel {
 public:
  enum class Sort { kRank, kMemory, kStepTime, kRecompute, kViolations };
  enum class Trend { kStepTime, kPeak };

  // The newest answers. The selection stays with its rank.
  void setRanks(std::vector<RankRow> ranks);
  // `visible`: lines of ranks and headings that fit on the screen, at least 1.
  TopAction press(const TopKey& key, int visible);

  // A job's rows lie together. Jobs and the rows of each are sorted alike, jobs by their first row.
  const std::vector<RankRow>& rows() const { return rows_; }
  // All rows; with several jobs each one's heading before it.
  const std::vector<TopLine>& lines() const { return lines_; }
  std::size_t jobs() const { return jobs_; }
  // The rows of the job that begins with this one.
  std::span<const RankRow> section(std::size_t first_row) const;
  std::size_t selected() const { return selected_; }  // of rows()
  // The first of lines() in a window of `visible` ones that has the selection in it.
  std::size_t firstShown(int visible) const;
  Sort sort() const { return sort_; }
  Trend trend() const { return trend_; }
  bool showsHelp() const { return help_; }
  const std::optional<std::string>& prompt() const { return prompt_; }  // what was typed so far
  std::string promptedName() const;  // "rank 3", with several jobs "rank 3 of port-29500"

  std::string title;    // "job port-29500", where no row tells the job
  std::string message;  // what came of the last change, and what is wrong with all of it

 private:
  struct Place {  // whom a row is of
    std::string job, where;
    int rank = 0;
    bool operator==(const Place&) const = default;
  };
  static Place placeOf(const RankRow& row) { return {row.job, row.where, row.rank}; }

  void sortRows(const std::optional<Place>& kept);
  void setLines();
  std::size_t lineOf(std::size_t row) const;
  void move(long by);
  std::size_t lastFirst(int visible) const;
  void turnPage(long by, int visible);
  void showHeading(int visible);
  TopAction pressInPrompt(const TopKey& key);
  TopAction pressLetter(char letter);

  std::vector<RankRow> rows_;
  std::vector<TopLine> lines_;
  std::size_t jobs_ = 0, selected_ = 0, first_ = 0;
  Sort sort_ = Sort::kRank;
  Trend trend_ = Trend::kStepTime;
  bool help_ = false;
  std::optional<std::string> prompt_;
  Place prompted_;  // of whom a budget is being typed
};

}  // namespace ebbtide::cli
