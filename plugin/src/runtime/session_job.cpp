// What a Session does for the plan of its whole job, where its steps exchange messages with other
// ranks: all on the planning thread.
#include <fmt/format.h>

#include "runtime/session.hpp"

namespace ebbtide::plugin {

JobClient::Here Session::here() const {
  const Held held = mutex_.hold();
  return {.torch_version = torch_version_, .threads = threads_, .of_gpu = trained_.isElsewhere()};
}

void Session::pollJob() try {
  JobProgress progress;
  {
    const Held held = mutex_.hold();
    progress.step = steps_;
    if (const auto step_time = stepTime(held))
      progress.step_ns = static_cast<Nanoseconds>(step_time->seconds * 1e9);
  }
  job_.poll(std::chrono::steady_clock::now(), progress);
} catch (const std::exception& error) {
  debug(std::string("the job's plan: ") + error.what());
}

void Session::seeStages(const std::vector<std::int32_t>& stages) {
  const Held held = mutex_.hold();
  budget_.check().checkStages(stages);
}

void Session::fallShort(const JobFindings::Rank& of) {
  budget_.verdict().fallShort(mutex_.hold(), of);
}

bool Session::foundStages(const std::vector<std::int32_t>& stages) {
  const Held held = mutex_.hold();
  metrics_.noteStages(held, stages);
  return budget_.noteStages(held, stages);
}

void Session::endRound(const std::string& why) {
  {
    const Held held = mutex_.hold();
    budget_.verdict().refusal().stop(held).noteRoundEnded();
    if (!why.empty()) budget_.giveStageUp(held, why);
  }
  planning_.wake();
}

void Session::stopOnceAdvised() {
  Held held = mutex_.hold();
  if (budget_.isOpen(held)) return;
  AdvisedStop& stop = budget_.verdict().refusal().stop(held);
  const auto now = std::chrono::steady_clock::now();
  if (const auto until = stop.waitUntil(now))
    planning_.awaitWord(held, *until, [&] { return stop.advised(); });
  if (!budget_.isOpen(held)) stop.decide(now);
}

void Session::adopt(const RankJob::Decision& decision) {
  plans_.adopt(decision);
}

}  // namespace ebbtide::plugin
