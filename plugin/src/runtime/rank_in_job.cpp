#include "runtime/rank_in_job.hpp"

#include <mutex>

#include "config/rank_socket.hpp"

namespace ebbtide::plugin {

RankInJob::RankInJob(const Parts& parts)
    : parts_(parts),
      outcome_({.guard = parts.guard,
                .budget = parts.budget,
                .metrics = parts.metrics,
                .planning = parts.planning,
                .plans = parts.plans}),
      client_(parts.config, parts.guard, outcome_, parts.life.ends, parts.lines.teller(),
              parts.lines.debugger()),
      identity_({.guard = parts.guard,
                 .config = parts.config,
                 .trained = parts.trained,
                 .metrics = parts.metrics,
                 .budget = parts.budget,
                 .control = parts.control,
                 .discovery = discovery_,
                 .torch_version = parts.torch_version,
                 .settle_job =
                     [this] {
                       if (!parts_.life.ends) client_.beginAnew(here());
                     },
                 .say = parts.lines.teller(),
                 .warn = parts.lines.warner()}),
      discovery_(parts.config, parts.guard, identity_, parts.life.ends, parts.lines.warner()) {}

void RankInJob::readPlace() {
  if (parts_.config->isTold() && !parts_.life.forked) return;
  const Held held = parts_.guard.hold();
  discovery_.begin(held, rankPlaceFromEnvironment(), RankSocket::jobIdFromEnvironment());
  parts_.budget.takeAtOnce(held);  // no step has begun
}

void RankInJob::noteTrains() {
  if (parts_.life.forked) std::call_once(parts_.life.shown, [this] { showChild(); });
}

// The first step of a forked child that ran backward is over: it trains.
void RankInJob::showChild() {
  discovery_.showChild();
  {
    const Held held = parts_.guard.hold();
    parts_.life.shows = true;
  }
  parts_.planning.wake();  // the planning thread does the rest
}

// A refusal stands last.
void RankInJob::settleAtEnd() {
  bool refused = false;
  {
    const Held held = parts_.guard.hold();
    refused = parts_.budget.verdict().refusal().stop(held).raised();
  }
  if (!refused) return discovery_.settleAtEnd();
  parts_.metrics.openFile();
}

JobClient::Here RankInJob::here() const {
  const Held held = parts_.guard.hold();
  return {.torch_version = parts_.torch_version,
          .threads = parts_.life.threads,
          .of_gpu = parts_.trained.isElsewhere()};
}

}  // namespace ebbtide::plugin
