// ProgramTable: the programs whose steps have run, what is known of each, and which plan a step
// begins with. Torch-free; whoever has it guards it.
//
//   a step begins ─► expectedPlan(): a guess ─► its first op ─► planFor(): which program it is
//     ─► it ends ─► noteStep(): what the next guess is made of
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <vector>

#include "ebbtide/scheduler/trace.hpp"
#include "runtime/programs/active_plans.hpp"
#include "runtime/programs/program.hpp"
#include "runtime/programs/program_history.hpp"
#include "runtime/steps/step_summary.hpp"

namespace ebbtide::plugin {

class ProgramTable {
 public:
  static constexpr std::size_t kMost = 64;  // beyond, the one with the fewest steps is forgotten

  // --- by trace signature
  using Programs = std::map<std::uint64_t, Program>;
  Programs::iterator begin() { return programs_.begin(); }
  Programs::iterator end() { return programs_.end(); }
  Programs::iterator find(std::uint64_t signature) { return programs_.find(signature); }
  Programs::const_iterator begin() const { return programs_.begin(); }
  Programs::const_iterator end() const { return programs_.end(); }
  Programs::const_iterator find(std::uint64_t signature) const { return programs_.find(signature); }
  Program& operator[](std::uint64_t signature) { return programs_[signature]; }
  std::size_t size() const { return programs_.size(); }

  // --- which plan a step begins with; `step`: its number
  // Of the program that is expected next, else of the one that ran last; nullptr: it has none.
  std::shared_ptr<const Plan> expectedPlan(std::int64_t step);
  // Of a program that begins so, or nullptr: of several the one that was expected here, else the
  // one that most steps ran.
  std::shared_ptr<const Plan> planFor(std::uint64_t first_op_signature, std::int64_t step);
  bool anyPlan() const;
  bool anyWasPlanned() const;  // whether or not it has a plan now

  // --- what is learnt
  // It is planned anew without those of its plans that do. False: none does.
  bool dropPlans(const std::function<bool(const Plan&)>& does);
  // The budget is another one. `drop`: plans were made for more, and would go over it.
  void beginAnew(bool drop);
  // What a step has recorded, by which its durations become those of all of its program's steps.
  void noteRecorded(scheduler::Trace& trace);
  // A step is over. Which program ran; 0: not known.
  std::uint64_t noteStep(const StepSummary& summary);
  // The process's so many-th. `keeps_everything`: nothing is dropped or recorded any more.
  void noteActive(const StepSummary& summary, std::int64_t step, bool keeps_everything);

  // --- of several
  const ActivePlans& active() const { return active_; }
  std::uint64_t last() const { return history_.last(); }  // that ran; 0: none has
  // nullptr: not known which program it was.
  Program* programOf(const StepSummary& summary);
  const Program* current() const;  // that ran last, else the main one
  // The one that most steps ran, of those whose figures are known. Of several that ran about as
  // many the largest: programs that take turns would take turns here, too. 0: there is none.
  std::uint64_t main() const;
  // Whose plan is told: the main one, or where that has none the main one of those that have.
  using Planned = std::function<bool(std::uint64_t signature)>;
  std::uint64_t shown(const Planned& planned) const;
  const Program* shown() const;    // by the plans in force; nullptr: there is none
  const Program* largest() const;  // by its plain peak

 private:
  void forget();
  std::uint64_t programIn(const StepSummary& summary) const;
  Programs::const_iterator mostRun(const Planned& takes) const;

  Programs programs_;
  ProgramHistory history_;
  ActivePlans active_;
};

}  // namespace ebbtide::plugin
