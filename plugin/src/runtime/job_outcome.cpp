#include "runtime/job_outcome.hpp"

#include <chrono>

namespace ebbtide::plugin {

void JobOutcome::seeStages(const std::vector<std::int32_t>& stages) {
  const Held held = parts_.guard.hold();
  parts_.budget.check().checkStages(stages);
}

void JobOutcome::fallShort(const JobFindings::Rank& of) {
  parts_.budget.verdict().fallShort(parts_.guard.hold(), of);
}

bool JobOutcome::foundStages(const std::vector<std::int32_t>& stages) {
  const Held held = parts_.guard.hold();
  parts_.metrics.noteStages(held, stages);
  return parts_.budget.noteStages(held, stages);
}

void JobOutcome::endRound(const std::string& why) {
  {
    const Held held = parts_.guard.hold();
    parts_.budget.verdict().refusal().stop(held).noteRoundEnded();
    if (!why.empty()) parts_.budget.giveStageUp(held, why);
  }
  parts_.planning.wake();
}

void JobOutcome::stopOnceAdvised() {
  Held held = parts_.guard.hold();
  if (parts_.budget.isOpen(held)) return;
  AdvisedStop& stop = parts_.budget.verdict().refusal().stop(held);
  const auto now = std::chrono::steady_clock::now();
  if (const auto until = stop.waitUntil(now))
    parts_.planning.awaitWord(held, *until, [&] { return stop.advised(); });
  if (!parts_.budget.isOpen(held)) stop.decide(now);
}

void JobOutcome::adopt(const RankJob::Decision& decision) {
  parts_.plans.adopt(decision);
}

}  // namespace ebbtide::plugin
