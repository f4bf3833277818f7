// A run without a session, and the verdict on its budget.
#pragma once

#include <cstdint>
#include <string>

#include "ebbtide/scheduler/graph_builder.hpp"
#include "judged_run.hpp"
#include "runtime/budget/budget_verdict.hpp"

namespace ebbtide::plugin::test {

constexpr std::uint64_t kFirstOp = 7, kOtherOp = 8;

// A step of one op, which needs what it begins with and nothing besides.
inline scheduler::Trace stepThatNeeds(std::int64_t bytes) {
  using Kind = scheduler::TraceEvent::Kind;
  scheduler::Trace trace;
  trace.base_bytes = bytes;
  trace.ops.resize(1);
  trace.ops[0].name = "aten::mm";
  trace.ops[0].signature = kFirstOp;
  trace.events = {{.kind = Kind::kOpBegin, .id = 0}, {.kind = Kind::kOpEnd, .id = 0}};
  return trace;
}

class BudgetVerdictTest : public JudgedRunTest {
 protected:
  static constexpr std::int64_t kBudget = 8 * kMib;
  static constexpr std::int64_t kOver = 16 * kMib;  // taken at once by a step that goes over
  static constexpr std::int64_t kNeed = 4 * kMib;   // of a step that does not
  static constexpr std::int64_t kBase = kMib;

  explicit BudgetVerdictTest(Config config = {}) : JudgedRunTest(std::move(config)) {
    trained_.setBudget(std::to_string(kBudget));
  }

  void begin(std::int64_t base_bytes = kBase, bool trains = true) {
    const Held held = guard_.hold();
    verdict_.beginStep(held, base_bytes, trains);
  }
  void goOver() {
    void* block = trained_.memory().allocate(kOver, allocator::Stream::kDefault);
    ASSERT_NE(block, nullptr);
    trained_.memory().deallocate(block);
  }
  // It was not recorded.
  void endUnseen() {
    const Held held = guard_.hold();
    const allocator::Statistics memory = trained_.memory().statistics();
    figures_.notePeaks(memory);
    verdict_.noteViolations(held, memory.budget_violations);
    ++steps_;
  }
  void end(const scheduler::Trace& trace) {
    endUnseen();
    verdict_.noteFloor(trace, scheduler::buildGraph(trace), /*alone=*/true, budget_.number());
  }
  void end(std::int64_t needed_bytes = kNeed) { end(stepThatNeeds(needed_bytes)); }

  bool decided() { return verdict_.decided(guard_.hold()); }
  bool refused() const { return verdict_.refusal().requested(); }
  std::string refusal() { return verdict_.refusal().stop(guard_.hold()).message(); }
  // Two steps hold, and the third begins as the second did.
  void holdTwo() {
    for (int i = 0; i < BudgetFloor::kChecks; ++i) {
      begin();
      end();
    }
    begin();
  }
  void stepOver() {
    begin();
    goOver();
    end();
  }
  void recordNone() {
    while (to_record_.any()) to_record_.noteStep();
  }

  const JudgedRun run_ = run();
  RankBudget budget_{std::nullopt, std::to_string(kBudget)};
  BudgetVerdict verdict_{run_, budget_};
};

}  // namespace ebbtide::plugin::test
