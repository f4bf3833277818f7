#include "job/job_findings.hpp"

#include <fmt/format.h>

#include <stdexcept>

#include "base/no_budget.hpp"
#include "ebbtide/scheduler/byte_size.hpp"
#include "ebbtide/scheduler/most_amount.hpp"
#include "job/job_document.hpp"
#include "job/job_store.hpp"

namespace ebbtide::plugin {
namespace {

using Numbers = std::vector<std::int64_t>;

constexpr std::int64_t kMostStages = std::int64_t{1} << 20;
constexpr JobDocument::Range kAmount{0, scheduler::kMostAmount};

}  // namespace

std::string toText(const JobFindings& findings) {
  Numbers counts, stages, excess, taker, spare;
  for (const JobFindings::Rank& of : findings.ranks) {
    counts.push_back(static_cast<std::int64_t>(of.stages.size()));
    stages.insert(stages.end(), of.stages.begin(), of.stages.end());
    excess.push_back(of.excess_bytes);
    taker.push_back(of.taker);
    spare.push_back(of.spare_bytes);
  }
  const nlohmann::json object{{"stage_counts", counts},
                              {"stages", stages},
                              {"excess", excess},
                              {"taker", taker},
                              {"spare", spare}};
  return object.dump();
}

JobFindings findingsFromText(std::string_view text) {
  if (text.size() > kMostStoredBytes) throw std::invalid_argument("it is too long");
  const JobDocument document(text);
  const Numbers counts = document.numbers("stage_counts", kMostRanks, {0, kMostStages});
  const Numbers stages =
      document.numbers("stages", static_cast<std::size_t>(kMostStages), {0, kMostStages});
  const Numbers excess = document.column("excess", counts.size(), kAmount);
  const Numbers taker = document.column("taker", counts.size(), {scheduler::kNone, kMostRanks});
  const Numbers spare = document.column("spare", counts.size(), kAmount);
  JobFindings findings;
  std::size_t next = 0;
  for (std::size_t rank = 0; rank < counts.size(); ++rank) {
    JobFindings::Rank& of = findings.ranks.emplace_back();
    for (std::int64_t left = counts[rank]; left > 0; --left, ++next) {
      if (next == stages.size())
        throw std::invalid_argument("\"stages\" has fewer than \"stage_counts\" says");
      of.stages.push_back(static_cast<std::int32_t>(stages[next]));
    }
    of.excess_bytes = excess[rank];
    of.taker = static_cast<std::int32_t>(taker[rank]);
    of.spare_bytes = spare[rank];
  }
  if (next != stages.size())
    throw std::invalid_argument("\"stages\" has more than \"stage_counts\" says");
  return findings;
}

std::string takerText(const JobFindings::Rank& of) {
  if (of.taker == scheduler::kNone) return "no neighbour has memory to spare";
  if (of.spare_bytes < of.excess_bytes) {
    return fmt::format("rank {} has only {} to spare", of.taker,
                       scheduler::formatBytes(of.spare_bytes));
  }
  const std::string could = fmt::format("rank {} could take a layer", of.taker);
  if (of.spare_bytes >= kNoBudgetBytes / 2) return could + ": it has no budget";
  return fmt::format("{}: it leaves at least {} free", could,
                     scheduler::formatBytes(of.spare_bytes));
}

}  // namespace ebbtide::plugin
