// MeasuredBudget: the bytes of a budget that is of what a step takes, "-50%" or "60%peak".
//
//   step 1 ──► step 2 ──► …  measured only
//          └──────────┴─ the base is settled, at the latest when step 4 begins: in force from here
//          on
//
// The base is what lives when a step begins. The first update adds the optimizer's state (AdamW's
// is twice the parameters), and some loops keep gradients: a step 1 alone would foretell too
// little, and half of its activations might be less than the base of all later steps. So a step
// counts once the next one begins with the same base, within 1 %: step 2 is bounded where the
// optimizer keeps nothing, else step 3. What comes later changes the bytes no more.
//
// Torch-free; whoever has it guards it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "ebbtide/scheduler/budget_form.hpp"
#include "runtime/steps/recorded_steps.hpp"

namespace ebbtide::plugin {

class MeasuredBudget {
 public:
  using Bytes = std::int64_t;
  using Form = scheduler::BudgetForm;

  static constexpr std::int64_t kMostMeasured = 3;  // steps
  static constexpr std::int64_t kLateSteps = 8;
  static constexpr int kSettledPercent = 1;

  // A step begins, after so many with a backward pass, with so much live.
  void noteBegin(std::int64_t steps, Bytes base_bytes);
  bool settled() const { return settled_; }
  // True once: so many steps have passed, and what it is of is not known.
  bool isLate();

  // This budget holds, or another one than that: nothing. What was known of it stays.
  void want(std::optional<Form> form) { wanted_ = form; }
  const std::optional<Form>& wanted() const { return wanted_; }
  bool awaits() const { return wanted_ && !known(); }
  // Of the one that is wanted.
  bool known() const { return wanted_ && known_form_ == wanted_; }
  Bytes bytes() const { return bytes_; }
  const scheduler::BudgetFacts& facts() const { return facts_; }
  void know(const scheduler::BudgetFacts& facts);

 private:
  std::int64_t begun_after_ = -1;  // steps that had ended; -1: none began
  Bytes last_base_bytes_ = 0;
  bool settled_ = false, said_late_ = false;
  std::optional<Form> wanted_, known_form_;
  scheduler::BudgetFacts facts_;
  Bytes bytes_ = 0;
};

// Why nothing is said of what a step takes, until the base is settled.
std::string notMeasuredText();
// Of the program that needs most without a plan. Of no step: nothing is known.
scheduler::BudgetFacts factsOf(const std::vector<RecordedStep>& recorded);

}  // namespace ebbtide::plugin
