// Budgets of a job's ranks and stages, as people write them in EBBTIDE_BUDGET and in job files.
//
//   30GiB                                  the same for all
//   default=auto,rank3=-50%,rank8-15=20GiB,stage0=70GiB,rank9=none
//
// An entry for the rank holds, else one for a stage that it runs, else `default`; of several the
// last one.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "ebbtide/scheduler/budget_form.hpp"

namespace ebbtide::scheduler {

class RankBudgets {
 public:
  // Throws std::invalid_argument: one sentence that begins with "name=text" and names the entry:
  // an unknown key, a range that ends before it begins, an entry given twice, no entry at all.
  static RankBudgets parse(const std::string& name, const std::string& text);

  // The first entry of so few bytes that another unit was meant (budget_form.hpp).
  void refuseFewBytes(const std::string& name) const;

  // The budget as it was written ("80%") for a rank that runs these stages; nothing if no entry is
  // for it, or "none" is. BudgetForm reads it; resolve() makes bytes of it.
  std::optional<std::string> textOf(std::int32_t rank,
                                    const std::vector<std::int32_t>& stages = {}) const;
  // Is some entry for a stage, and none for this rank? Then its budget is known once its stages
  // are.
  bool dependsOnStages(std::int32_t rank) const;
  bool isNone() const;  // is each entry "none"?
  bool namesStages() const;
  bool namesRanks() const;
  // Is some entry of what the ranks of a machine share?
  bool sharesMemory() const;
  bool isOfSteps() const;  // is some entry of what a step takes?

  // Entries that are for none of a job with so many ranks, or with these stages, as they were
  // written: "rank9=24GiB".
  std::vector<std::string> forNoRankOf(std::int32_t ranks) const;
  std::vector<std::string> forNoStageOf(const std::vector<std::int32_t>& stages) const;

 private:
  enum class Key : std::uint8_t { kDefault, kRank, kStage };
  struct Entry {
    Key key;
    std::int32_t first, last;
    std::string size;
    BudgetForm form;

    bool covers(std::int32_t number) const { return first <= number && number <= last; }
    std::string text() const;
  };

  std::vector<Entry> entries_;
};

}  // namespace ebbtide::scheduler
