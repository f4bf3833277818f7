#include "runtime/rank_identity.hpp"

#include <fmt/format.h>

#include <utility>

#include "version.hpp"

namespace ebbtide::plugin {

// The budget that belongs to it is due.
void RankIdentity::becomeRank(const Held& held, const RankPlace& place, const std::string& job_id) {
  const Config& before = *parts_.config;
  if (before.isAt(place) && before.job_id == job_id && before.isTold() == place.isTold() &&
      before.local_rank_told == place.local_rank_told) {
    return;
  }
  auto [now, problem] = before.at(place, job_id);
  const bool moves = before.rank != now.rank || before.local_world_size != now.local_world_size;
  const bool by_stage = before.budget.by_stage.has_value() || now.budget.by_stage.has_value();
  const bool other_budget = before.budget.text != now.budget.text ||
                            before.budget.bytes != now.budget.bytes || (moves && by_stage);
  parts_.config.change(std::move(now));
  if (!problem.empty()) parts_.warn(problem);
  parts_.metrics.becomeRank();
  parts_.trained.noteSharers(parts_.config->local_world_size);
  if (!other_budget || (parts_.config->budget.is_of_gpus && !parts_.trained.isElsewhere())) return;
  parts_.budget.becomeRank(held);
}

bool RankIdentity::awaitRanks(const Held& held, bool awaits) {
  return parts_.budget.awaitRank(held, awaits);
}

void RankIdentity::settleRank() {
  parts_.budget.check().checkRanks();
  parts_.budget.checkMemory();
  parts_.metrics.openFile();
  parts_.settle_job();
}

RunControl::Served RankIdentity::serve(bool on_any_port) {
  return parts_.control.serve(on_any_port);
}

bool RankIdentity::sayWhere(const std::string& endpoint, bool first) {
  if (first) {
    const bool said = parts_.say(fmt::format("{} (torch {}): {}, {}", kVersion,
                                             parts_.torch_version, budgetInWords(), endpoint));
    if (said && parts_.config->asks_for_audit_cache && parts_.config->rank == 0) {
      parts_.warn(
          "EBBTIDE_AUDIT_CACHE has no effect any more (each process compares its replays itself); "
          "it can be unset");
    }
    return said;
  }
  return parts_.say(fmt::format("this is rank {} of {}, {} of {} on this machine: {}",
                                parts_.config->rank, parts_.config->world_size,
                                parts_.config->local_rank, parts_.config->local_world_size,
                                endpoint));
}

std::string RankIdentity::budgetInWords() const {
  const Held held = parts_.guard.hold();
  return parts_.budget.inWords(held, parts_.discovery.stage(held));
}

}  // namespace ebbtide::plugin
