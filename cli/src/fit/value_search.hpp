// ValueSearch: which values of a command's argument are run, and which is the largest that fits.
//
//   8,16,32   a list: each one, in this order
//   8..64     a range: the largest whole number that fits, exactly, in few runs. What fits once is
//             taken to fit for every smaller value
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace ebbtide::cli {

class ValueSearch {
 public:
  struct Tried {
    std::int64_t value = 0;
    bool fits = false;
    std::int64_t needed_bytes = 0;  // 0: not known, since it failed
  };

  // Throws std::invalid_argument: one sentence.
  static ValueSearch parse(const std::string& text);

  bool isRange() const noexcept { return is_range_; }
  // Nothing: all is known. Of a range it begins with the smallest value and at most doubles, so
  // that no run needs far more memory than there may be.
  std::optional<std::int64_t> next(std::int64_t budget_bytes) const;
  void note(Tried tried) { tried_.push_back(tried); }
  const std::vector<Tried>& tried() const noexcept { return tried_; }
  std::optional<std::int64_t> largest() const;  // that fits

 private:
  std::optional<std::int64_t> nextOfRange(std::int64_t budget_bytes) const;
  int interpolations() const;
  bool isRefuted(std::int64_t crossed, std::int64_t low) const;
  // Where needs, taken to grow evenly, reach the budget; nothing: too little is known.
  std::optional<double> crossing(std::int64_t budget_bytes) const;

  bool is_range_ = false;
  std::vector<std::int64_t> values_;  // of a range its first and last
  std::vector<Tried> tried_;
};

// The command with each "{}" replaced. Throws std::invalid_argument where there is none.
std::vector<std::string> withValue(std::vector<std::string> command, std::int64_t value);

}  // namespace ebbtide::cli
