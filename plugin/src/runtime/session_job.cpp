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

RankPlanning::Limits Session::jobLimits(std::int64_t cap,
                                        std::optional<std::int64_t> budget) const {
  const Held held = mutex_.hold();
  return job_.limits(cap, budget, budget_.ofRank(held).asksOthers());
}

void Session::seeStages(const std::vector<std::int32_t>& stages) {
  const Held held = mutex_.hold();
  budget_.check().checkStages(stages);
}

// Others may ask for plans meanwhile.
void Session::tellJob(const scheduler::Trace& trace, const StepSchedule& own,
                      const RankPlanning::Limits& limits, int budget_number) try {
  {
    const Held held = mutex_.hold();
    if (budget_number != budget_.number(held)) return;
    planning_ = false;
  }
  job_.tell(trace, own, limits);
  {
    const Held held = mutex_.hold();
    if (budget_number != budget_.number(held)) return;  // it tells more soon
    budget_.verdict().refusal().stop(held).noteTold(job_.takesPart());
  }
  changed_.notify_all();
} catch (const std::exception& error) {
  debug(std::string("no part in a plan of the job: ") + error.what());
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
  changed_.notify_all();
}

void Session::stopOnceAdvised() {
  Held held = mutex_.hold();
  if (budget_.isOpen(held)) return;
  AdvisedStop& stop = budget_.verdict().refusal().stop(held);
  const auto now = std::chrono::steady_clock::now();
  if (const auto until = stop.waitUntil(now))
    held.waitUntil(changed_, *until, [&] { return stop.advised() || closing_; });
  if (!budget_.isOpen(held)) stop.decide(now);
}

// What may be planned with has changed since it was made: what is over that, and over what the
// rank runs by now, is made anew from the next recorded step.
void Session::adopt(const RankJob::Decision& decision) try {
  int budget_number = 0;
  {
    const Held held = mutex_.hold();
    budget_number = budget_.number(held);
  }
  const Bytes cap = trained_.planningCapBytes();
  Planned planned;
  JobClient::put(decision.schedule, cap, planned);
  if (!planned.result.feasible) {
    const Held held = mutex_.hold();
    const auto program = programs_.find(decision.trace.signature);
    if (program == programs_.end()) return;
    Program& known = program->second;
    const Bytes now = known.plan ? known.plan->predicted_peak_bytes : known.plain_peak_bytes;
    if (planned.simulated.peak_bytes > now) {
      known.askAgain();
      to_record_.atLeast(2);
      return;
    }
  }
  search_.replayAhead(decision.trace, planned, cap);
  publish(decision.trace, planned, 0, budget_number, decision.from_step);
} catch (const std::exception& error) {
  debug(std::string("the job's plan could not be used: ") + error.what());
}

}  // namespace ebbtide::plugin
