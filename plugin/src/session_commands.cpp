// What a rank takes from outside while it trains: another budget, a new plan, a pause. Each is
// checked first, and takes effect when the next step begins.
#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "ebbtide/metrics/or_null.hpp"
#include "ebbtide/scheduler/simulator.hpp"
#include "ebbtide/scheduler/spilling_floor.hpp"
#include "session.hpp"
#include "session_control.hpp"

namespace ebbtide::plugin {
namespace {

using metrics::Answer;
using metrics::errorResponse;
using metrics::Request;
using metrics::Response;
using nlohmann::json;
using scheduler::Bytes;

constexpr std::int64_t kStepsThatProve = 3;  // under a budget, none of them over it
constexpr Bytes kMib = 1 << 20;

// The field of the body that has this name; what is wrong else.
struct Field {
  json value;
  std::string problem;
};

Field fieldOf(const std::string& body, const char* name) {
  const json read = json::parse(body, nullptr, /*allow_exceptions=*/false);
  if (!read.is_object()) return {{}, "the body is no JSON object"};
  const auto found = read.find(name);
  if (found == read.end()) return {{}, fmt::format("the body has no \"{}\"", name)};
  if (read.size() > 1) return {{}, fmt::format("the body has more than \"{}\"", name)};
  return {*found, ""};
}

// As it is written in the environment, "" for none.
std::string sizeOf(const json& value, std::string& problem) {
  if (value.is_string()) {
    const std::string text = value.get<std::string>();
    if (text.empty()) problem = "\"budget\" is empty; \"none\" is no budget";
    return text == "none" ? "" : text;
  }
  if (value.is_number_unsigned()) return std::to_string(value.get<std::uint64_t>());
  problem = "\"budget\" is no size: \"30GiB\", \"80%\", \"none\" or bytes";
  return "";
}

Response tooSmall(const std::string& why, Bytes smallest) {
  Response response{.status = 409};
  response.body = json{{"error", why}, {"smallest_feasible_budget_bytes", smallest}}.dump() + "\n";
  return response;
}

}  // namespace

// -----------------------------------------------------------------------------------------------
// budget

void SessionControl::postBudget(const Request& request, const Answer& answer) {
  if (auto why = ofAnotherRank(request)) return answer(*why);
  if (auto why = gone()) return answer(*why);
  Field field = fieldOf(request.body, "budget");
  std::string size;
  if (field.problem.empty()) size = sizeOf(field.value, field.problem);
  if (field.problem.empty()) try {
      static_cast<void>(bytesOf(size));
    } catch (const std::invalid_argument& error) {
      field.problem = error.what();
    }
  if (!field.problem.empty()) return answer(errorResponse(400, field.problem));
  std::optional<Response> why;
  {
    const std::lock_guard lock(session_.mutex_);
    why = refusal();
    if (!why && !session_.awake_)  // nobody would answer it
      why = errorResponse(503, "no step has been recorded yet: ask again after the first one");
    if (!why && commands_.size() >= kMostWaiting)
      why = errorResponse(429, "other budgets are being planned for: ask again later");
    if (!why) commands_.emplace_back([this, size, answer] { changeBudget(size, answer); });
  }
  if (why) return answer(*why);
  session_.changed_.notify_all();
}

// A share is of the machine's memory over its ranks, as in EBBTIDE_BUDGET.
std::int64_t SessionControl::bytesOf(const std::string& size) const {
  if (size.empty()) return allocator::kUnlimited;
  if (size.ends_with('%') && session_.trained_.isElsewhere())
    throw std::invalid_argument("budget=" + size + ": of a GPU give a size, not a share");
  return parseSize("budget", size, session_.config().local_world_size);
}

// Of the planning thread, which nothing else plans on meanwhile.
void SessionControl::changeBudget(const std::string& size, const Answer& answer) {
  BudgetChange change;
  change.size = size;
  std::optional<Response> why;
  {
    const std::lock_guard lock(session_.mutex_);
    why = refusal();
    if (!why) why = pauseRefusal();
    if (!why && last_.trace == nullptr)
      why = errorResponse(503, "no step has been recorded yet: ask again after the first one");
    change.step = last_;
  }
  if (why) return answer(*why);
  if (!size.empty()) change.bytes = bytesOf(size);
  try {
    planFor(change);
  } catch (const std::exception& error) {
    return answer(errorResponse(500, std::string("no plan could be made: ") + error.what()));
  }
  answer(promise(std::move(change)));
}

// What the recorded step needs at least, and what its plan under that budget is.
void SessionControl::planFor(BudgetChange& change) {
  const auto start = std::chrono::steady_clock::now();
  scheduler::Trace trace = *change.step.trace;
  trace.host = session_.hostCopies();
  {
    const std::lock_guard lock(session_.mutex_);
    session_.keepRejected(trace);
  }
  const bool first = change.step.first_step;
  const scheduler::TraceGraph graph = scheduler::buildGraph(trace, {.first_step = first});
  change.plain_peak_bytes = change.predicted_peak_bytes =
      scheduler::simulate(graph.graph, scheduler::keepEverything(graph.graph)).peak_bytes;
  if (!change.bytes) return;
  const TrainedMemory& memory = session_.trained_;
  const Bytes floor = scheduler::spillingFloor(
      scheduler::buildGraph(trace, {.first_step = first, .unread_may_go = true}).graph);
  const Bytes kept_free = *change.bytes - memory.planningCapBytes(change.bytes);
  const Bytes others = kept_free - memory.headroomBytes(*change.bytes);
  change.smallest_bytes = floor + others + memory.headroomBytes(floor + others) + kMib;
  const Bytes cap = *change.bytes - kept_free;
  const bool possible = *change.bytes >= change.smallest_bytes;
  if (change.plain_peak_bytes <= cap || (!possible && !isHeldNow(change))) return;
  Planned planned = session_.search_.best(trace, graph, cap);
  session_.preferRehearsed(trace, first, cap, planned);
  session_.search_.replayAhead(trace, planned, cap);
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
  change.plan = Session::planOf(trace, planned, took.count());
  change.predicted_peak_bytes = planned.simulated.peak_bytes;
}

// Does the run keep within such a budget now? What holds is proof, whatever is computed.
bool SessionControl::isHeld(const BudgetChange& change) const {
  const bool proves = session_.budget() && session_.open_steps_.settled() &&
                      session_.steps_ - steps_before_budget_ >= kStepsThatProve &&
                      session_.memory().ledger().overruns() == violations_before_budget_;
  return proves && *change.bytes >= *session_.budget();
}

bool SessionControl::isHeldNow(const BudgetChange& change) const {
  const std::lock_guard lock(session_.mutex_);
  return isHeld(change);
}

// It is due from here on, or refused.
Response SessionControl::promise(BudgetChange change) {
  const std::lock_guard lock(session_.mutex_);
  if (auto why = refusal()) return *why;
  if (auto why = pauseRefusal()) return *why;
  if (change.bytes && *change.bytes < change.smallest_bytes && !isHeld(change)) {
    return tooSmall(fmt::format("a budget of {} is too small for this step; the smallest feasible "
                                "budget is {}",
                                formatBytes(*change.bytes), formatBytes(change.smallest_bytes)),
                    change.smallest_bytes);
  }
  const std::optional<RecentSteps::Medians> now = recent_.medians(stepsOfActivePlan());
  const bool spills = change.plan != nullptr && !change.plan->feasible;  // for how long is unknown
  std::optional<double> ratio, seconds;
  if (!spills) ratio = change.plan != nullptr ? change.plan->overhead_ratio : 0;
  if (now && ratio) seconds = now->plain_seconds * (1 + *ratio);
  if (spills) change.predicted_peak_bytes = std::min(change.predicted_peak_bytes, *change.bytes);
  const json body = {{"budget_bytes", metrics::orNull(change.bytes)},
                     {"before_bytes", metrics::orNull(session_.budget())},
                     {"from_step", nextStep()},
                     {"predicted_peak_bytes", change.predicted_peak_bytes},
                     {"overhead_ratio", metrics::orNull(ratio)},
                     {"step_seconds", metrics::orNull(seconds)}};
  Response response{.body = body.dump() + "\n"};  // what is not told does not hold
  session_.budget_.ask(change.size);
  change_ = std::move(change);
  return response;
}

void SessionControl::judgeFromNowOn() {
  steps_before_budget_ = session_.steps_;
  violations_before_budget_ = session_.memory().ledger().overruns();
}

// Between two steps, with mutex_ held.
void SessionControl::takePlan(const std::string& size) {
  judgeFromNowOn();
  std::optional<BudgetChange> change = std::exchange(change_, std::nullopt);
  if (!change || change->size != size) return;
  const auto program = session_.programs_.find(change->step.trace->signature);
  if (program == session_.programs_.end()) return;
  if (change->plan != nullptr && session_.findings_.rejects(*change->plan)) return;
  Program& known = program->second;
  known.plan = known.later_plan = nullptr;
  known.plain_peak_bytes = change->plain_peak_bytes;
  known.predicted_peak_bytes = change->predicted_peak_bytes;
  known.from_first_step = change->step.first_step;
  known.steady_peak_bytes = 0;
  known.slow_offloads = known.replans = 0;
  if (change->plan != nullptr) {
    if (known.plans_made++ > 0) session_.counters_.addReplan();
    const bool rehearsed = session_.rehearsedBefore(*change->step.trace, *change->plan);
    change->plan->trials = rehearsed ? 1 : 0;
    known.plan = std::move(change->plan);
  }
  known.replan = false;
  // The other ranks of its job wait for its word on the new budget: it is planned once more.
  known.asked = change->step.trace->group_size <= 1;
}

// -----------------------------------------------------------------------------------------------
// replan, pause

void SessionControl::postReplan(const Request& request, const Answer& answer) {
  if (auto why = ofAnotherRank(request)) return answer(*why);
  if (auto why = gone()) return answer(*why);
  const bool empty =
      request.body.empty() || json::parse(request.body, nullptr, false) == json::object();
  if (!empty) return answer(errorResponse(400, "the body is {}, or nothing"));
  answer(replan());
}

Response SessionControl::replan() {
  const std::lock_guard lock(session_.mutex_);
  if (auto why = refusal()) return *why;
  if (auto why = pauseRefusal()) return *why;
  for (auto& [signature, known] : session_.programs_) known.forgetVerdict();
  session_.floor_.checkAgain();
  session_.budget_.sayAgain();
  session_.to_record_.atLeast(3);
  curve_of_ = {};
  return {.status = 202, .body = json{{"from_step", nextStep()}}.dump() + "\n"};
}

void SessionControl::postPause(const Request& request, const Answer& answer) {
  if (auto why = ofAnotherRank(request)) return answer(*why);
  if (auto why = gone()) return answer(*why);
  const Field field = fieldOf(request.body, "paused");
  if (!field.problem.empty()) return answer(errorResponse(400, field.problem));
  if (!field.value.is_boolean())
    return answer(errorResponse(400, "\"paused\" is neither true nor false"));
  answer(pause(field.value.get<bool>()));
}

Response SessionControl::pause(bool paused) {
  const std::lock_guard lock(session_.mutex_);
  if (auto why = refusal()) return *why;
  Response response{.body = json{{"paused", paused}, {"from_step", nextStep()}}.dump() + "\n"};
  session_.budget_.pause(paused);
  return response;
}

std::optional<Response> SessionControl::pauseRefusal() const {
  if (!session_.budget_.isPaused()) return std::nullopt;
  return errorResponse(409, "the run is paused: let it go on first");
}

}  // namespace ebbtide::plugin
