#include "runtime/run/rank_discovery.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <thread>
#include <utility>

#include "base/system_time.hpp"

namespace ebbtide::plugin {
namespace {

using std::chrono::steady_clock;

// Where there is no group torch throws, which takes half a millisecond: looks are to take no more
// than a thousandth of the time.
constexpr std::int64_t kLookEveryNs = 20'000'000, kLookAtLeastEveryNs = 500'000'000;

constexpr auto kAlone = std::chrono::seconds(5);  // without a group
constexpr auto kMostSilence = std::chrono::seconds(2);
constexpr auto kAskTime = std::chrono::seconds(60);
// Then: a rank without Ebbtide never answers, and the others ask rank 0's store until they end.
// Once a second each that is 1000 requests/s of 1000 ranks; so it is 34.
constexpr auto kLatePause = std::chrono::seconds(30);
// Tries for a port that another rank hands over. Tries count, since a busy machine may hold up both
// ranks. So does the time, since this thread plans nothing meanwhile: a try that waits for locks
// (UnixSocket) takes up to 3 s. The last try begins at most one try after kHandOverTime.
constexpr int kHandOverTries = 60;
constexpr auto kHandOverPause = std::chrono::milliseconds(50);
constexpr auto kHandOverTime = std::chrono::seconds(20);

std::int64_t nextLookNs(std::int64_t begun_ns) {
  const std::int64_t now_ns = steadyNanoseconds();
  return now_ns + std::clamp(1000 * (now_ns - begun_ns), kLookEveryNs, kLookAtLeastEveryNs);
}

}  // namespace

RankDiscovery::RankDiscovery(const CurrentConfig& config, SessionGuard& guard, Process& process,
                             const std::atomic<bool>& ends, Tell warn)
    : config_(config), guard_(guard), process_(process), ends_(ends), warn_(std::move(warn)) {}

void RankDiscovery::begin(const Held& held, const RankPlace& told, const std::string& job_id) {
  process_.becomeRank(held, told, job_id);
  if (told.isTold()) return;
  State& state = state_.with(held);
  state.stage = Stage::kAlone;
  state.begun_at = steady_clock::now();
  looks_for_group_ = default_group_.find != nullptr;
  next_group_look_ns_ = steadyNanoseconds() + kLookEveryNs;
  if (looks_for_group_)
    if (const auto group = default_group_.find()) takeGroup(held, *group);
}

bool RankDiscovery::lookForGroup() {
  if (!looks_for_group_.load(std::memory_order_relaxed)) return false;
  if (steadyNanoseconds() < next_group_look_ns_.load(std::memory_order_relaxed)) return false;
  const std::int64_t begun_ns = steadyNanoseconds();
  const auto group = default_group_.find();
  next_group_look_ns_ = nextLookNs(begun_ns);
  if (!group) return false;
  const auto held = guard_.hold();
  if (!looks_for_group_) return false;  // another thread has found it
  state_.with(held).settled = false;
  takeGroup(held, *group);
  return true;
}

void RankDiscovery::takeGroup(const Held& held, const GroupPlace& group) {
  looks_for_group_ = false;
  RankPlace place = *config_;
  const bool whole = takeGroupPlace(place, group);
  process_.becomeRank(held, place, config_->job_id);
  State& state = state_.with(held);
  state.stage = whole ? Stage::kKnown : Stage::kAsking;
  state.group = group;
  state.asked_at = steady_clock::now();
  if (!whole && !place.local_size_told) process_.awaitRanks(held, true);
}

void RankDiscovery::show() {
  const Stage now = stage(guard_.hold());
  if (now != Stage::kAsking) sayWhere(/*may_wait=*/false);
  if (now == Stage::kKnown) settle(/*may_wait=*/false);
}

// -----------------------------------------------------------------------------------------------
// the planning thread

RankDiscovery::Time RankDiscovery::nextLook(const Held& held) const {
  const State& state = state_.with(held);
  if (state.settled) return Time::max();
  switch (state.stage) {
    case Stage::kAlone:
      return state.begun_at + kAlone;
    case Stage::kAsking:
      if (survey_ == nullptr) return Time::min();
      return said_where_ ? survey_->nextPoll()
                         : std::min(survey_->nextPoll(), state.asked_at + kMostSilence);
    case Stage::kKnown:
      break;
  }
  return Time::min();
}

void RankDiscovery::seek(Time now) try {
  State state;
  {
    const auto held = guard_.hold();
    if (nextLook(held) > now) return;
    state = state_.with(held);
  }
  if (state.stage != Stage::kAsking) return settle(/*may_wait=*/true);
  if (survey_ == nullptr) startSurvey();
  if (survey_ == nullptr) return goWithoutPlace("the store of its process group cannot be asked");
  const auto silence = now - state.asked_at;
  const auto pause = silence > kAskTime ? kLatePause : std::chrono::seconds(0);
  if (const auto found = survey_->poll(now, pause)) {
    learnPlace(*found);
    return settle(/*may_wait=*/true);
  }
  if (!said_where_ && silence > kMostSilence) sayWhere(/*may_wait=*/true);
  const bool told = config_->local_size_told;  // it answers the others
  if (silence > (told ? kMostSilence : kAskTime)) actMeanwhile();
} catch (const std::exception& error) {
  goWithoutPlace(error.what());
}

void RankDiscovery::startSurvey() {
  auto store = default_group_.open();
  if (store == nullptr) return;
  const GroupPlace group = *state_.with(guard_.hold()).group;
  survey_ = std::make_unique<RankSurvey>(std::move(store), group.rank, group.size,
                                         RankSurvey::Here{machineIdentity(), config_->job_id});
}

void RankDiscovery::learnPlace(const RankSurvey::Found& found) {
  const auto held = guard_.hold();
  RankPlace place = *config_;
  if (!place.local_rank_told) place.local_rank = found.local_rank;
  if (!place.local_size_told) place.local_world_size = found.local_world_size;
  place.local_rank_told = place.local_size_told = true;
  process_.becomeRank(held, place, found.job_id);
  state_.with(held).stage = Stage::kKnown;
  process_.awaitRanks(held, false);
}

// The others may tell later all the same.
void RankDiscovery::actMeanwhile() {
  if (isUnheard(/*may_wait=*/true) || std::exchange(acts_meanwhile_, true)) return;
  stopWaiting("other ranks have told nothing");
  act();
}

void RankDiscovery::act() {
  if (!serve_problem_.empty() && warn_(serve_problem_)) serve_problem_.clear();
  process_.settleRank();
}

void RankDiscovery::stopWaiting(const std::string& why) {
  if (!process_.awaitRanks(guard_.hold(), false)) return;
  warn_(
      fmt::format("how many ranks share this machine is not known ({}): a percentage counts one "
                  "process. To avoid that: a budget in bytes, or LOCAL_WORLD_SIZE",
                  why));
}

void RankDiscovery::goWithoutPlace(const std::string& why) {
  stopWaiting(why);
  state_.with(guard_.hold()).stage = Stage::kKnown;
  settle(/*may_wait=*/true);
}

void RankDiscovery::settle(bool may_wait) {
  const Stage settles = stage(guard_.hold());
  survey_.reset();
  const bool moved = !config_->isAt(served_as_) || config_->job_id != served_job_;
  if (!ends_ && (!said_where_ || moved)) sayWhere(may_wait);
  if (isUnheard(may_wait)) return;
  if (!said_where_) tellWhere();
  act();
  const auto held = guard_.hold();
  if (isUnheard(may_wait)) return;  // under the guard, with which the end begins
  State& state = state_.with(held);
  state.settled = state.stage == settles;  // else a group was found meanwhile
}

// Another rank may have had the port while it was taken to be local rank 0.
std::string RankDiscovery::serve(bool may_wait) {
  const bool may_come = may_wait && [this] {
    const auto held = guard_.hold();
    const State& state = state_.with(held);
    return state.stage == Stage::kKnown && state.group && config_->local_world_size > 1;
  }();
  served_as_ = *config_;
  served_job_ = config_->job_id;
  const auto latest = steady_clock::now() + kHandOverTime;
  for (int more = may_come ? kHandOverTries : 0;; --more) {
    serve_problem_.clear();
    const bool last_try = ends_ || more <= 0 || steady_clock::now() >= latest;
    auto [endpoint, problem] = process_.serve(last_try && !config_->server.port_is_given);
    serve_problem_ = std::move(problem);
    if (serve_problem_.empty() || last_try) return std::move(endpoint);
    std::this_thread::sleep_for(kHandOverPause);
  }
}

void RankDiscovery::sayWhere(bool may_wait) {
  endpoint_ = serve(may_wait);
  if (!isUnheard(may_wait)) tellWhere();
}

void RankDiscovery::tellWhere() {
  if (process_.sayWhere(endpoint_, /*first=*/!said_where_)) said_where_ = true;
}

}  // namespace ebbtide::plugin
