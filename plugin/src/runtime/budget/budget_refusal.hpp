// BudgetRefusal: how a run is told that its budget is too small: with which words, whether at once
// or after other ranks' advice, and what the program may go on with then. Torch-free.
//
//   refuse() ─► the program gets an error ─► it ends
//     └─► it goes on, by its first op with something else, or with less: goesOn()
//           └─ maybe with the same: let go on, kMostMaybeSame times in a row
//                └─ its first whole step is the refused program's, over the budget: isSame() ─► the
//                   same error at the next step's begin
//
// Thread rule: requested() from any thread.
#pragma once

#include <cstdint>
#include <string>

#include "ebbtide/scheduler/spilling_floor.hpp"
#include "runtime/budget/advised_stop.hpp"
#include "runtime/budget/budget_floor.hpp"
#include "runtime/budget/judged_run.hpp"
#include "runtime/budget/needs_of_ranks.hpp"
#include "runtime/budget/rank_budget.hpp"
#include "runtime/budget/told_budgets.hpp"

namespace ebbtide::plugin {

class BudgetRefusal {
 public:
  using Bytes = std::int64_t;
  using Held = SessionGuard::Held;

  // Steps that begin as the refused program did, with no less, are let go on so often until one
  // needs less than all before (a batch-size finder's next size). A program that only repeats
  // itself ends so.
  static constexpr int kMostMaybeSame = 16;

  // A step, and what it needs at least.
  struct Need {
    const scheduler::Trace& trace;
    const scheduler::TraceGraph& graph;  // of what nothing reads, too
    const scheduler::SpillingFloor& floor;
    Bytes bytes = 0;  // with what is in no plan
    bool alone = true;
    Bytes base_bytes = 0;  // that it begins with
  };

  // The arguments must outlive it.
  BudgetRefusal(const JudgedRun& run, RankBudget& budget, const BudgetFloor& floor,
                const ToldBudgets& told)
      : run_(run), budget_(budget), floor_(floor), told_(told) {}

  // The next allocation of a training thread must fail.
  bool requested() const noexcept { return stop_.requested(); }
  // The program is about to get it as an error, of these words. They name the budget that all
  // ranks need, as far as the others have told.
  std::string raise(const Held&, const NeedsOfRanks::ByRank& others);
  NeedsOfRanks& others() noexcept { return others_; }
  AdvisedStop& stop(const Held&) { return stop_; }
  const AdvisedStop& stop(const Held&) const { return stop_; }

  // --- the program that needs most
  // `most`: its step needs more than all before.
  void describe(const Held& held, const Need& need, bool most);
  bool isDescribed(const Held&) const { return !floor_text_.empty(); }
  void noteNeedsMost(const Held&, const scheduler::Trace& trace);
  void noteDecides(const Held&, const scheduler::Trace& trace) {
    in_pipeline_ = trace.group_size > 1;
  }
  bool inPipeline(const Held&) const { return in_pipeline_; }  // of the last step that decided
  // By the other ranks of its pipeline: the refusal waits for them.
  bool mayBeAdvised(const Held& held) const { return in_pipeline_ && run_.may_be_advised(held); }
  // What it saves, by op.
  const std::string& savedText(const Held&) const { return saved_text_; }
  void forgetNeed(const Held&);  // another program begins

  // --- it is too small
  // The run ends, or goes on over its budget to find the one it needs.
  bool ends(const Held&) const;
  void refuse(const Held& held, Bytes base_bytes);  // a step that begins with so much

  // --- the program has caught it
  // A step begins with that op. False: it is not let go on.
  bool goesOn(const Held&, std::uint64_t first_op_signature, Bytes base_bytes);
  // The first whole step of what was let go on is over: is it the refused program's after all?
  bool isSame(const Held&, const Need& need);
  Bytes refusedBytes(const Held&) const { return refused_bytes_; }  // that it needs
  // Another budget holds.
  void beginAnew(const Held&);

 private:
  struct Signatures {  // 0: not known
    std::uint64_t program = 0, first_op = 0;
  };

  struct Words {  // of the error, before and after the budget that it names
    std::string before, after;
    Bytes smallest_bytes = 0;  // of this rank
  };

  std::string mostText() const;
  Words refusalWords(Bytes base_bytes) const;
  std::string refusalText(const NeedsOfRanks::ByRank& others) const;
  std::string namedText(const NeedsOfRanks::ByRank& others) const;
  std::string overrunText() const;
  std::string spillProblem() const;
  Bytes budgetBytes() const { return run_.trained.budgetBytes().value_or(0); }

  const JudgedRun& run_;
  RankBudget& budget_;
  const BudgetFloor& floor_;
  const ToldBudgets& told_;
  AdvisedStop stop_;
  Words words_;
  NeedsOfRanks others_;
  // Of the step that needs most: what it holds where it needs most, and what it saves.
  std::string floor_text_, saved_text_;
  Bytes floor_bytes_ = 0;
  bool in_pipeline_ = false;
  Signatures needs_most_, refused_;
  Bytes refused_bytes_ = 0, refused_base_bytes_ = 0;  // 0: nothing was refused
  bool may_be_same_ = false;                          // that goes on, until a step of it is over
  int maybe_same_ = 0;            // times that such was let go on, since one needed less
  Bytes least_let_go_bytes_ = 0;  // the least that such a program needed; 0: unknown
};

}  // namespace ebbtide::plugin
