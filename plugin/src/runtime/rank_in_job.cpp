#include "runtime/rank_in_job.hpp"

namespace ebbtide::plugin {

RankInJob::RankInJob(const Parts& parts)
    : outcome({.guard = parts.guard,
               .budget = parts.budget,
               .metrics = parts.metrics,
               .planning = parts.planning,
               .plans = parts.plans}),
      client(parts.config, parts.guard, outcome, parts.ends, parts.lines.teller(),
             parts.lines.debugger()),
      identity({.guard = parts.guard,
                .config = parts.config,
                .trained = parts.trained,
                .metrics = parts.metrics,
                .budget = parts.budget,
                .control = parts.control,
                .discovery = discovery,
                .torch_version = parts.torch_version,
                .settle_job =
                    [this, &ends = parts.ends, here = parts.here] {
                      if (!ends) client.beginAnew(here());
                    },
                .say = parts.lines.teller(),
                .warn = parts.lines.warner()}),
      discovery(parts.config, parts.guard, identity, parts.ends, parts.lines.warner()) {}

}  // namespace ebbtide::plugin
