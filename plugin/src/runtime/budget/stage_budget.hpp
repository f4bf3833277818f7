// StageBudget: the budget of a rank whose entry in EBBTIDE_BUDGET is that of its stage, which only
// training shows. Torch-free; whoever has it guards it.
//
//   not known ──► a step without messages: ──► the ranks of its pipeline ──► the program names
//                 the stage is the rank         found together what it runs    what it runs
//
// What is further to the right is never replaced by what is on its left.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "ebbtide/scheduler/rank_budgets.hpp"
#include "ebbtide/scheduler/trace.hpp"

namespace ebbtide::plugin {

class StageBudget {
 public:
  StageBudget(scheduler::RankBudgets budgets, std::int32_t rank)
      : budgets_(std::move(budgets)), rank_(rank) {}

  // What a recorded step shows. True: the rank runs other stages than was known.
  bool noteStep(const scheduler::Trace& trace);
  // What the ranks found together; the same.
  bool noteFound(std::vector<std::int32_t> stages);

  bool known() const { return !stages_.empty(); }
  // Where the step exchanges messages, does it take the other ranks to know?
  bool asksOthers() const { return source_ < Source::kFound; }
  const std::vector<std::int32_t>& stages() const { return stages_; }  // ascending
  // As it was written; nothing: none for this rank.
  std::optional<std::string> size() const { return budgets_.textOf(rank_, stages_); }

 private:
  enum class Source : std::uint8_t { kNone, kAlone, kFound, kNamed };

  bool take(Source source, std::vector<std::int32_t> stages);

  const scheduler::RankBudgets budgets_;
  const std::int32_t rank_;
  Source source_ = Source::kNone;
  std::vector<std::int32_t> stages_;
};

}  // namespace ebbtide::plugin
