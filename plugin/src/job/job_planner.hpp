// The plan of a pipelined job, from what its ranks report. Torch-free.
#pragma once

#include <atomic>
#include <cstdint>
#include <optional>
#include <vector>

#include "job/job_agreement.hpp"
#include "job/rank_report.hpp"

namespace ebbtide::plugin {

// A JobPlan's text, or why there is none: no rank is short of memory, or one is beyond help. That
// rank is told who could help. Where ranks ask for their stages, only the stages are told: with
// these the ranks have other budgets. Same reports, same plan: no clock, no chance. `reports` are
// those of all ranks of the group, in order; none is `unable`. Throws std::invalid_argument where
// the reports are not of one pipeline. Once `stop` is true it ends soon, with `stopped` alone: this
// process ends.
JobPlanning planJob(const std::vector<RankReport>& reports,
                    const std::atomic<bool>* stop = nullptr);

// The stages that these ranks run: as the program names them, else numbered from 0 in the order of
// the data. Ascending; nothing where the reports are not of one pipeline.
std::optional<std::vector<std::int32_t>> stagesOf(const std::vector<RankReport>& reports);

}  // namespace ebbtide::plugin
