// ToldGrowth: by how much what lives when a step begins has grown since the budget was judged. That
// much is added to the budgets that are told, and a line says what kept it. Torch-free.
//
//   judged: settle() ─► a step begins: note() ─► it has grown: due ─► that step is recorded: taken
//                                                                     ─► say()
//
// Thread rule: what takes no Held from any thread.
#pragma once

#include <atomic>
#include <cstdint>
#include <optional>
#include <string>

#include "ebbtide/scheduler/trace.hpp"
#include "out_of_memory/out_of_memory.hpp"
#include "runtime/budget/base_growth.hpp"
#include "runtime/budget/budget_floor.hpp"
#include "runtime/budget/judged_run.hpp"

namespace ebbtide::plugin {

class ToldGrowth {
 public:
  using Bytes = std::int64_t;
  using Held = SessionGuard::Held;

  // Both must outlive it.
  ToldGrowth(const JudgedRun& run, const BudgetFloor& floor) : run_(run), floor_(floor) {}

  // --- bytes of the base
  // Since the step that needs most began, and since the one that was judged did.
  Bytes bytes() const noexcept { return bytes_; }
  Bytes sinceJudgedBytes() const noexcept { return since_judged_bytes_; }
  // Beyond what a step began with, and what was judged.
  Bytes since(const Held& held, Bytes base_bytes) const noexcept;
  // What needs most is another step now, or the base has grown.
  void update(const Held& held) noexcept;

  // --- a step begins, with so much live; `step`: its number
  void note(const Held&, std::int64_t step, Bytes base_bytes);
  // The budget is judged with it; `before`: what the step before began with.
  void settle(const Held&, std::int64_t step, Bytes before, Bytes base_bytes);
  void forget(const Held&) { growth_.forget(); }  // nothing is judged any more
  // Without a budget nothing is judged: grown since that many steps had ended.
  void measure(const Held& held, std::int64_t steps, Bytes base_bytes);

  // --- what is said, once a step has been recorded
  bool isDue(const Held&) const { return due_; }
  std::optional<BaseGrowth::Found> takeDue(const Held&);
  void keepDue(const Held&, bool due) { due_ = due; }
  // Of the step that was recorded for it. Takes the guard.
  void say(const BaseGrowth::Found& growth, const scheduler::Trace& trace);
  // To an error that memory is out.
  void addTo(const Held&, OutOfMemory& facts) const;

 private:
  std::string madeLater(Bytes more_bytes) const;
  void nameKept(const BaseGrowth::Found& growth, OutOfMemory& facts) const;

  const JudgedRun& run_;
  const BudgetFloor& floor_;
  std::atomic<Bytes> bytes_ = 0, since_judged_bytes_ = 0;
  // The guard guards these.
  BaseGrowth growth_;
  bool due_ = false;
  std::string kept_by_;  // what kept most in the step that was recorded; empty: not known
};

}  // namespace ebbtide::plugin
