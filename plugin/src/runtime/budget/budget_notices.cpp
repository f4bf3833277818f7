#include "runtime/budget/budget_notices.hpp"

#include <fmt/format.h>

#include <utility>

#include "out_of_memory/out_of_memory.hpp"
#include "runtime/budget/spilling_notice.hpp"

namespace ebbtide::plugin {

void BudgetNotices::forget(const Held&) {
  fits_.reset();
  spills_each_step_.clear();
  without_spill_bytes_ = 0;
}

void BudgetNotices::notePlan(const Held& held, const PlanMade& made) {
  spills_each_step_.clear();
  without_spill_bytes_ = 0;
  const std::optional<Bytes> budget = run_.trained.budgetBytes();
  if (!budget || made.feasible) return;
  without_spill_bytes_ =
      run_.trained.budgetWithRoomFor(made.predicted_peak_bytes + run_.trained.unplannedBytes());
  // What is kept free may have become less since the plan was begun.
  if (without_spill_bytes_ <= *budget || refusal_.stop(held).awaits() || refusal_.ends(held))
    return;
  if (run_.outage.began()) return;  // nothing is written any more
  spills_each_step_ = describe(SpillingNotice{.budget_bytes = *budget,
                                              .predicted_peak_bytes = made.predicted_peak_bytes,
                                              .enough_bytes = without_spill_bytes_,
                                              .copied_bytes = made.host_bytes,
                                              .to_pinned_memory = run_.trained.isElsewhere()});
  saySpills(held);
}

// Once under each budget, and of the search after it was judged anew: that has steps of its own.
void BudgetNotices::sayOver(const Held& held) {
  const bool again = floor_.judgedAnew();
  if (!budget_.isNew(RankBudget::Message::kOver) && !again) return;
  const Bytes needed = floor_.neededBytes(), now = run_.trained.budgetBytes().value_or(0);
  const std::string who = floor_.needsMostAtStart() && !again
                              ? "the program, before its first step,"
                              : fmt::format("step {}", run_.steps);
  std::string what;
  if (again) {
    what = fmt::format(
        "went over the budget of {} again{}", formatBytes(now),
        needed > now ? fmt::format("; the steps so far needed at least {}", formatBytes(needed))
                     : "");
  } else if (needed > now) {
    what = fmt::format("needed at least {}, more than the budget of {}", formatBytes(needed),
                       formatBytes(now));
  } else {
    what = fmt::format("went over the budget of {}", formatBytes(now));
  }
  // Who could help is told with the refusal.
  const std::string advice =
      refusal_.mayBeAdvised(held)
          ? fmt::format(
                ", and then for up to {} s, until the other ranks of its pipeline have told "
                "who could help",
                AdvisedStop::kAdviceTime.count())
          : "";
  run_.warn(
      fmt::format("{} {}: training goes on over the budget for at most {} more steps, to find the "
                  "budget that trains{}",
                  who, what, BudgetFloor::kMostOver, advice));
}

void BudgetNotices::saySpills(const Held& held) {
  if (spills_each_step_.empty() || !mayBeSaid(held) || refusal_.ends(held)) return;
  if (budget_.isNew(RankBudget::Message::kSpills)) run_.warn(spills_each_step_);
  spills_each_step_.clear();
}

// Programs may take turns, and the largest one may have been planned by the first step alone. One
// that does not fit is of an earlier budget, or was refused.
BudgetNotices::Fits BudgetNotices::largestOf(const Held&, const Fits& fits) const {
  const Program* const largest = run_.programs.largest();
  if (largest == nullptr || largest->plain.peak_bytes <= fits.plain_peak_bytes ||
      largest->plain.peak_bytes > run_.trained.planningCapBytes())
    return fits;
  return {largest->plain.peak_bytes, largest->plain.activation_bytes};
}

// Of a whole run: not where a step spilled or a program has a plan.
void BudgetNotices::sayFits(const Held& held) {
  if (!fits_ || !mayBeSaid(held)) return;
  const Fits fits = largestOf(held, *std::exchange(fits_, std::nullopt));
  const ExecutorCounters::Totals done = run_.counters.totals();
  const bool gave_up =
      done.spilled_bytes > 0 || done.dropped_online_bytes > 0 || run_.programs.anyWasPlanned();
  if (gave_up || floor_.tooSmall() || !budget_.isNew(RankBudget::Message::kFits)) return;
  const Bytes half = told_.halfBytes(fits.plain_peak_bytes, fits.activation_bytes);
  const Bytes others = run_.trained.othersBytes();
  const std::string beside =
      others == 0
          ? ""
          : fmt::format(" beside {} in use outside of PyTorch's allocator", formatBytes(others));
  const std::string hint =
      half > 0 && half < fits.plain_peak_bytes + others
          ? fmt::format(". Half of the activations would be EBBTIDE_BUDGET={}", asSetting(half))
          : "";
  run_.say(fmt::format("nothing to do so far: a step needs {}{} and the budget is {}{}",
                       formatBytes(fits.plain_peak_bytes), beside,
                       formatBytes(*run_.trained.budgetBytes()), hint));
}

}  // namespace ebbtide::plugin
