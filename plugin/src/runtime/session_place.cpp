// Which rank of its job a Session is, where its launcher's variables do not tell all of it:
// mp.spawn, forked workers, Lightning.
//
//   first step ─► the variables, anew: a program may have set them since `import torch`
//     ├─ they tell all ─► settled
//     ├─ no process group ─► taken to be alone; what it warns of by that waits 5 s
//     │     └─ between two later steps a group is found ─┐
//     └─ a group ◄───────────────────────────────────────┘
//          ─► rank and world size: entries of EBBTIDE_BUDGET, names of files, labels
//          ─► the planning thread asks the ranks who shares the machine
//          ─► percentages, from the next step on; port and socket: settled
#include <fmt/format.h>

#include <utility>

#include "base/system_time.hpp"
#include "config/rank_socket.hpp"
#include "runtime/session.hpp"
#include "version.hpp"

namespace ebbtide::plugin {
namespace {

using std::chrono::steady_clock;

constexpr std::int64_t kLookEveryNs = 20'000'000;  // where there is no group torch throws
constexpr auto kAlone = std::chrono::seconds(5);   // without a group
constexpr auto kMostSilence = std::chrono::seconds(2);
constexpr auto kAskTime = std::chrono::seconds(60);
constexpr auto kHandOver = std::chrono::seconds(3);  // of a port by another rank
constexpr auto kHandOverPause = std::chrono::milliseconds(50);

bool samePlace(const Config& a, const RankPlace& b, const std::string& job_id) {
  return a.rank == b.rank && a.local_rank == b.local_rank && a.world_size == b.world_size &&
         a.local_world_size == b.local_world_size && a.job_id == job_id;
}

}  // namespace

void Session::readPlace() {
  woke_at_ = steady_clock::now();
  if (config_->isTold() && !forked_) return;
  const std::lock_guard lock(mutex_);
  const RankPlace told = rankPlaceFromEnvironment();
  becomeRank(told, RankSocket::jobIdFromEnvironment());
  if (!told.isTold()) {
    place_ = Place::kLooked;
    looks_for_group_ = default_group_.find != nullptr;
    next_group_look_ns_ = steadyNanoseconds() + kLookEveryNs;
    if (looks_for_group_)
      if (const auto group = default_group_.find()) takeGroup(*group);
  }
  if (const auto due = budget_.takeDue()) {  // no step has begun
    trained_.setBudget(inForce(*due));
    metrics_.setBudgetBytes(budget().value_or(allocator::kUnlimited));
  }
}

void Session::lookForGroup() {
  if (!looks_for_group_.load(std::memory_order_relaxed)) return;
  if (steadyNanoseconds() < next_group_look_ns_.load(std::memory_order_relaxed)) return;
  const auto group = default_group_.find();
  next_group_look_ns_ = steadyNanoseconds() + kLookEveryNs;
  if (!group) return;
  {
    const std::lock_guard lock(mutex_);
    if (!looks_for_group_) return;
    settled_ = false;
    takeGroup(*group);
  }
  changed_.notify_all();
}

// Called with mutex_ held.
void Session::takeGroup(const GroupPlace& group) {
  looks_for_group_ = false;
  RankPlace place = *config_;
  const bool whole = takeGroupPlace(place, group);
  becomeRank(place, config_->job_id);
  place_ = whole ? Place::kSettled : Place::kAsking;
  group_ = group;
  asked_at_ = steady_clock::now();
  if (!whole) budget_.awaitRank(config_->budgetNeedsPlace());
}

// The first step of a forked child that ran backward is over: it trains. Not with mutex_ held.
void Session::showChild() {
  sayWhereItIs();
  {
    const std::lock_guard lock(mutex_);
    shows_ = true;
  }
  changed_.notify_all();  // the planning thread does the rest
}

// Called with mutex_ held. The budget that belongs to it is due.
void Session::becomeRank(const RankPlace& place, const std::string& job_id) {
  const Config& before = *config_;
  if (samePlace(before, place, job_id) && before.isTold() == place.isTold() &&
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
  metrics_.setRank({config_->rank, config_->local_rank, config_->job_id});
  trained_.noteSharers(config_->local_world_size);
  if (!other_budget || (config_->budget_is_of_gpus && !trained_.isElsewhere())) return;
  budget_.becomeRank(config_->stage_budgets
                         ? std::optional(StageBudget(*config_->stage_budgets, config_->rank))
                         : std::nullopt,
                     config_->budget_text);
}

// -----------------------------------------------------------------------------------------------
// the planning thread

steady_clock::time_point Session::nextPlaceLook() const {
  if (settled_ || !shows_) return steady_clock::time_point::max();
  constexpr auto kNow = steady_clock::time_point::min();
  switch (place_) {
    case Place::kLooked:
      return woke_at_ + kAlone;
    case Place::kAsking:
      if (survey_ == nullptr) return kNow;
      return said_where_ ? survey_->nextPoll()
                         : std::min(survey_->nextPoll(), asked_at_ + kMostSilence);
    case Place::kSettled:
      break;
  }
  return kNow;
}

void Session::seekPlace() try {
  const auto now = steady_clock::now();
  Place place;
  {
    const std::lock_guard lock(mutex_);
    if (settled_ || nextPlaceLook() > now) return;
    place = place_;
  }
  if (place != Place::kAsking) return settle();
  if (survey_ == nullptr) startSurvey();
  if (survey_ == nullptr) return goWithoutPlace("the store of its process group cannot be asked");
  if (const auto found = survey_->poll(now)) {
    learnPlace(*found);
    return settle();
  }
  if (!said_where_ && now - asked_at_ > kMostSilence) sayWhereItIs();
  if (now - asked_at_ > kAskTime) stopWaitingForPlace("other ranks have told nothing");
} catch (const std::exception& error) {
  goWithoutPlace(error.what());
}

void Session::startSurvey() {
  auto store = default_group_.open();
  if (store == nullptr) return;
  survey_ = std::make_unique<RankSurvey>(std::move(store), group_->rank, group_->size,
                                         RankSurvey::Here{machineIdentity(), config_->job_id});
}

void Session::learnPlace(const RankSurvey::Found& found) {
  const std::lock_guard lock(mutex_);
  RankPlace place = *config_;
  if (!place.local_rank_told) place.local_rank = found.local_rank;
  place.local_world_size = found.local_world_size;
  place.local_rank_told = place.local_size_told = true;
  becomeRank(place, found.job_id);
  place_ = Place::kSettled;
  stopAwaitingRank();
}

// Called with mutex_ held. False: it did not wait.
bool Session::stopAwaitingRank() {
  if (!budget_.awaitsRank()) return false;
  budget_.awaitRank(false);
  floor_.checkAgain();
  to_record_.atLeast(2);
  return true;
}

// The others may tell later all the same.
void Session::stopWaitingForPlace(const std::string& why) {
  {
    const std::lock_guard lock(mutex_);
    if (!stopAwaitingRank()) return;
  }
  warn(
      fmt::format("how many ranks share this machine is not known ({}): a percentage counts one "
                  "process. To avoid that: a budget in bytes, or LOCAL_WORLD_SIZE",
                  why));
}

void Session::goWithoutPlace(const std::string& why) {
  stopWaitingForPlace(why);
  {
    const std::lock_guard lock(mutex_);
    place_ = Place::kSettled;
  }
  settle();
}

// What it is taken to be is final, or so likely that it acts by it.
void Session::settle() {
  Place settles;
  {
    const std::lock_guard lock(mutex_);
    settles = place_;
  }
  survey_.reset();
  // At the end nobody is served any more.
  if (!ends_ && (!said_where_ || !samePlace(*config_, served_as_, served_job_))) sayWhereItIs();
  if (!serve_problem_.empty()) warn(std::exchange(serve_problem_, ""));
  checkRankEntries();
  checkMemory();
  text_file_.reset();
  if (!config_->text_file_path.empty()) text_file_.emplace(config_->text_file_path);
  if (!ends_ && rank_job_ && !rank_job_->takesPart()) startRankJob();
  const std::lock_guard lock(mutex_);
  settled_ = place_ == settles;  // else a group was found meanwhile
}

// A refusal stands last.
void Session::settleAtEnd() {
  bool refused = false;
  {
    const std::lock_guard lock(mutex_);
    refused = stop_.raised();
  }
  if (!refused) return settle();
  if (!config_->text_file_path.empty()) text_file_.emplace(config_->text_file_path);
}

// Another rank may have had the port while it was taken to be local rank 0.
std::string Session::serve() {
  bool may_come = onPlanningThread();  // no training thread waits
  if (may_come) {
    const std::lock_guard lock(mutex_);
    may_come = place_ == Place::kSettled && group_ && config_->local_world_size > 1;
  }
  const auto until = steady_clock::now() + (may_come ? kHandOver : kHandOver * 0);
  served_as_ = *config_;
  served_job_ = config_->job_id;
  for (;;) {
    serve_problem_.clear();
    const bool last_try = ends_ || steady_clock::now() >= until;
    std::string endpoint = control_->serve(serve_problem_, last_try && !config_->port_is_given);
    if (serve_problem_.empty() || last_try) return endpoint;
    std::this_thread::sleep_for(kHandOverPause);
  }
}

void Session::sayWhereItIs() {
  const std::string endpoint = serve();
  if (!std::exchange(said_where_, true)) {
    say(fmt::format("{} (torch {}): {}, {}", kVersion, torch_version_, budgetInWords(), endpoint));
    if (config_->asks_for_audit_cache && config_->rank == 0) {
      warn(
          "EBBTIDE_AUDIT_CACHE has no effect any more, and nothing is to be done: each process "
          "compares its replays itself");
    }
    return;
  }
  say(fmt::format("this is rank {} of {}, {} of {} on this machine: {}", config_->rank,
                  config_->world_size, config_->local_rank, config_->local_world_size, endpoint));
}

std::string Session::budgetInWords() {
  const std::lock_guard lock(mutex_);
  if (const auto now = budget()) {
    std::string text = "budget " + formatBytes(*now);
    if (trained_.isElsewhere()) text += " of the GPU";
    if (budget_.isOfStage()) return text + " until its stage is known";
    const bool is_auto = config_->budget_form.kind == scheduler::BudgetForm::Kind::kAvailable;
    if (trained_.isElsewhere() || !config_->budget_form.isOfMemory()) return text;
    if (config_->local_size_told || place_ == Place::kSettled)
      return is_auto ? text + " (auto)" : text;
    return text + (place_ == Place::kAsking
                       ? " until it is known which ranks share this machine"
                       : fmt::format(" ({} of what one process has)", config_->budget_text));
  }
  if (measured_.awaits() && !budget_.isOfStage())
    return fmt::format("measuring until the bytes of {} are known", config_->budget_text);
  if (budget_.isOfStage()) return "measuring until its stage is known";
  return config_->gpu_budget.empty()
             ? "measuring, nothing is dropped"
             : "budget of each GPU " + config_->gpu_budget + ", nothing is dropped";
}

}  // namespace ebbtide::plugin
