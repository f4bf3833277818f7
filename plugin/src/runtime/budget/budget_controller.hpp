// BudgetController: which budget holds from which step on: that of the rank's stage once it is
// learnt, one of what steps take once that is measured, one that is asked for, none while the run
// is paused; and what it says of each. Owns the verdict on it. Torch-free.
//
//   written · asked for · learnt ─► due ─► take(), when the next step begins ─► judged by the steps
//                                    └─ of what steps take: measure(), then due again   that tell
//
// Thread rule: what takes no Held from any thread.
#pragma once

#include <atomic>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "runtime/budget/budget_check.hpp"
#include "runtime/budget/budget_verdict.hpp"
#include "runtime/budget/judged_run.hpp"
#include "runtime/budget/measured_budget.hpp"
#include "runtime/budget/rank_budget.hpp"
#include "runtime/run/rank_discovery.hpp"
#include "runtime/steps/open_steps.hpp"

namespace ebbtide::plugin {

class BudgetController {
 public:
  using Bytes = std::int64_t;
  using Held = SessionGuard::Held;

  // What is in it must outlive this.
  explicit BudgetController(JudgedRun run);

  const JudgedRun& run() const noexcept { return run_; }  // that it is the budget of
  BudgetVerdict& verdict() noexcept { return verdict_; }
  const BudgetVerdict& verdict() const noexcept { return verdict_; }
  BudgetCheck& check() noexcept { return check_; }  // which says what needs the guard
  void checkMemory();                               // reads files

  // --- what holds
  std::optional<Bytes> bytes() const noexcept { return run_.trained.budgetBytes(); }
  bool paused() const noexcept { return paused_; }
  const RankBudget& ofRank(const Held&) const { return budget_; }
  // Of the one in force: what was begun under another is no word on it.
  int number(const Held&) const { return budget_.number(); }
  // May it be another one soon?
  bool isOpen(const Held&) const { return budget_.isOpen(); }
  // No entry is the rank's, or its bytes are not known yet.
  bool measuresOnly(const Held&) const { return measured_.awaits() || !budget_.holdsAny(); }
  std::string modeName(const Held&) const;  // as status and report have it
  std::string inWords(const Held& held, RankDiscovery::Stage stage) const;

  // --- what is asked for while it runs
  void ask(const Held&, std::string size) { budget_.ask(std::move(size)); }
  void pause(const Held&, bool paused) { budget_.pause(paused); }
  // What was said once is said again where it still is so, and the next steps decide.
  void judgeAgain(const Held& held);
  void forget(const Held&, RankBudget::Message message) { budget_.forget(message); }

  // --- which rank it is
  void becomeRank(const Held&);  // the configuration's, which has another budget
  // Its budget waits until it is known who shares the machine, or waits no more. Did it wait?
  bool awaitRank(const Held& held, bool awaits);
  // Before the first step: what is due holds.
  void takeAtOnce(const Held& held);

  // --- a step begins
  // Where the base is settled, the budget of what steps take is due.
  void measure(const Held& held, Bytes base_bytes, bool trains);
  // Between two steps: what one of them holds is gone. As it was written where plans are to be made
  // or put in force for it.
  std::optional<std::string> take(const Held& held);
  OpenSteps::Number beginStep(const Held&) { return open_steps_.begin(); }

  // --- a step is over
  const OpenSteps& openSteps(const Held&) const { return open_steps_; }  // and which of them tell
  void endStep(const Held& held, OpenSteps::Number step);
  void learn(const Held& held, const StepSummary& summary);
  void noteOver(const Held& held);  // it went over the budget

  // --- the rank's stage, as the ranks of its pipeline found. True: another budget is due.
  bool noteStages(const Held& held, const std::vector<std::int32_t>& stages);
  void giveStageUp(const Held& held, const std::string& why);  // they have none to tell

  // --- what steps take
  bool stepsAreMeasured(const Held&) const { return measured_.settled(); }
  scheduler::BudgetFacts stepFacts(const std::vector<RecordedStep>& recorded) const;

 private:
  std::optional<Bytes> hostBytes() const noexcept {  // in force, of the host's memory
    return run_.trained.isElsewhere() ? std::nullopt : bytes();
  }
  std::string inForce(const std::string& written);
  void put(const std::string& written);
  bool takePause(const Held& held, std::optional<Bytes> before);
  void countFromNowOn();
  void sayTaken(std::optional<Bytes> before) const;
  void sayStageGivenUp(const Held& held, const std::string& why);

  const JudgedRun run_;
  RankBudget budget_;
  MeasuredBudget measured_;  // where that in force, or to be, is of what a step takes
  BudgetCheck check_;
  OpenSteps open_steps_;
  std::optional<Bytes> before_pause_;  // the budget that the plans were made for
  std::atomic<bool> paused_{false};
  BudgetVerdict verdict_{run_, budget_};
};

}  // namespace ebbtide::plugin
