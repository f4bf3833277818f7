// What a Session does by which rank of its job it is (rank_discovery.hpp): its configuration and
// its budget are that rank's, and it says where it is to be found.
#include <fmt/format.h>

#include <utility>

#include "config/rank_socket.hpp"
#include "runtime/session.hpp"
#include "version.hpp"

namespace ebbtide::plugin {

void Session::readPlace() {
  if (config_->isTold() && !forked_) return;
  const Held held = mutex_.hold();
  discovery_.begin(held, rankPlaceFromEnvironment(), RankSocket::jobIdFromEnvironment());
  budget_.takeAtOnce(held);  // no step has begun
}

std::chrono::steady_clock::time_point Session::nextPlaceLook(const Held& held) const {
  return shows_ ? discovery_.nextLook(held) : std::chrono::steady_clock::time_point::max();
}

// The first step of a forked child that ran backward is over: it trains.
void Session::showChild() {
  discovery_.showChild();
  {
    const Held held = mutex_.hold();
    shows_ = true;
  }
  changed_.notify_all();  // the planning thread does the rest
}

// The budget that belongs to it is due.
void Session::becomeRank(const Held& held, const RankPlace& place, const std::string& job_id) {
  const Config& before = *config_;
  if (before.isAt(place) && before.job_id == job_id && before.isTold() == place.isTold() &&
      before.local_rank_told == place.local_rank_told) {
    return;
  }
  std::string problem;
  Config now = before.at(place, job_id, problem);
  const bool moves = before.rank != now.rank || before.local_world_size != now.local_world_size;
  const bool by_stage = before.stage_budgets.has_value() || now.stage_budgets.has_value();
  const bool other_budget = before.budget_text != now.budget_text ||
                            before.budget_bytes != now.budget_bytes || (moves && by_stage);
  config_.change(std::move(now));
  if (!problem.empty()) warn(problem);
  metrics_.becomeRank();
  trained_.noteSharers(config_->local_world_size);
  if (!other_budget || (config_->budget_is_of_gpus && !trained_.isElsewhere())) return;
  budget_.becomeRank(held);
}

bool Session::awaitRanks(const Held& held, bool awaits) {
  return budget_.awaitRank(held, awaits);
}

void Session::settleRank() {
  budget_.check().checkRanks();
  budget_.checkMemory();
  metrics_.openFile();
  if (!ends_) job_.beginAnew(here());
}

// A refusal stands last.
void Session::settleAtEnd() {
  bool refused = false;
  {
    const Held held = mutex_.hold();
    refused = budget_.verdict().refusal().stop(held).raised();
  }
  if (!refused) return discovery_.settleAtEnd();
  metrics_.openFile();
}

std::string Session::serve(std::string& problem, bool on_any_port) {
  return control_->serve(problem, on_any_port);
}

void Session::sayWhere(const std::string& endpoint, bool first) {
  if (first) {
    say(fmt::format("{} (torch {}): {}, {}", kVersion, torch_version_, budgetInWords(), endpoint));
    if (config_->asks_for_audit_cache && config_->rank == 0) {
      warn(
          "EBBTIDE_AUDIT_CACHE has no effect any more (each process compares its replays itself); "
          "it can be unset");
    }
    return;
  }
  say(fmt::format("this is rank {} of {}, {} of {} on this machine: {}", config_->rank,
                  config_->world_size, config_->local_rank, config_->local_world_size, endpoint));
}

std::string Session::budgetInWords() {
  const Held held = mutex_.hold();
  return budget_.inWords(held, discovery_.stage(held));
}

}  // namespace ebbtide::plugin
