// ProgramNeeds: the bytes that running programs need, by their recorded steps. It knows the need
// without a plan, and the least need with everything spilled that can be. Torch-free.
//
// Thread rule: the planning thread, without the session's guard, which it takes shortly.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "ebbtide/scheduler/trace.hpp"
#include "plan/plan.hpp"
#include "runtime/budget/budget_controller.hpp"
#include "runtime/steps/recorded_steps.hpp"
#include "verify/replay_trust.hpp"

namespace ebbtide::plugin {

struct ProgramChange {  // of one program, under another budget
  RecordedStep step;
  std::int64_t plain_peak_bytes = 0;
  std::int64_t needed_bytes = 0;  // at least, whatever is spilled, of a step that begins with
  std::int64_t base_bytes = 0;    // so much, as they do by now
  std::int64_t predicted_peak_bytes = 0;
  // nullptr: nothing needs to be dropped, or it is planned later
  std::shared_ptr<Plan> plan = nullptr;
  bool later = false;
};

class ProgramNeeds {
 public:
  using Bytes = std::int64_t;

  // Both must outlive it, and are not used before they are made.
  ProgramNeeds(BudgetController& budget, const ReplayTrust& trust)
      : budget_(budget), trust_(trust) {}

  // Of what may be planned with, as it is now.
  scheduler::Trace planningTrace(const RecordedStep& step) const;
  // Nothing: no budget, and what it needs at least is not asked.
  ProgramChange of(RecordedStep step, std::optional<Bytes> budget) const;
  // Of all programs. Every answer names this budget from here on.
  Bytes smallestBudgetOf(const std::vector<ProgramChange>& programs) const;

 private:
  BudgetController& budget_;
  const ReplayTrust& trust_;
};

}  // namespace ebbtide::plugin
