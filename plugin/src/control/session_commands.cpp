// What a rank takes from outside while it trains: another budget, a new plan, a pause. Each is
// checked first, and takes effect when the next step begins.
#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "control/request_fields.hpp"
#include "control/session_control.hpp"
#include "ebbtide/metrics/or_null.hpp"
#include "runtime/session.hpp"

namespace ebbtide::plugin {
namespace {

using metrics::Answer;
using metrics::errorResponse;
using metrics::Request;
using metrics::Response;
using nlohmann::json;
using scheduler::BudgetForm;
using scheduler::Bytes;
namespace refusals = metrics::refusals;

constexpr std::int64_t kStepsThatProve = 3;                // in a row, within a budget
constexpr auto kPlanningOfAll = std::chrono::seconds(10);  // then no further program's is begun

// As in the environment; a number is bytes, however few. What is wrong becomes the problem.
BudgetForm formOf(const json& value, std::string& problem) try {
  if (value.is_number_unsigned())
    return BudgetForm::parse("budget", std::to_string(value.get<std::uint64_t>()));
  const std::string text = value.is_string() ? value.get<std::string>() : "";
  if (!text.empty()) {
    scheduler::refuseFewBytes("budget", text);
    return BudgetForm::parse("budget", text);
  }
  problem = value.is_string() ? "\"budget\" is empty; \"none\" is no budget"
                              : "\"budget\" is no size: \"30GiB\", \"-50%\", \"none\" or bytes";
  return {};
} catch (const std::invalid_argument& error) {
  problem = error.what();
  return {};
}

// "force", where it is there; what is wrong with it becomes the body's problem.
bool isForced(RequestFields& body) {
  if (!body.has("force")) return false;
  if (body.fields["force"].is_boolean()) return body.fields["force"].get<bool>();
  body.problem = "\"force\" is neither true nor false";
  return false;
}

Response nothingRecorded() {
  return errorResponse(refusals::kNothingRecorded,
                       "no step has been recorded yet: ask again after the first one");
}

Response notMeasured() {
  return errorResponse(refusals::kNotMeasured, notMeasuredText());
}

Response tooSmall(const std::string& why, Bytes smallest) {
  const metrics::Refusal& refusal = refusals::kBudgetTooSmall;
  const json body = {
      {"code", refusal.code}, {"error", why}, {"smallest_feasible_budget_bytes", smallest}};
  return {.status = refusal.status, .body = body.dump() + "\n"};
}

}  // namespace

// -----------------------------------------------------------------------------------------------
// budget

void SessionControl::postBudget(const Request& request, const Answer& answer) {
  if (auto why = ofAnotherRank(request)) return answer(*why);
  if (auto why = gone()) return answer(*why);
  RequestFields body = readFields(request.body, "budget", {"force"});
  BudgetForm form;
  if (body.problem.empty()) form = formOf(body.fields["budget"], body.problem);
  if (body.problem.empty() && form.isOfMemory() && !bytesOf(form, {}))
    body.problem = "budget=" + form.text() + ": of this device give a size";
  const bool force = body.problem.empty() && isForced(body);
  if (!body.problem.empty()) return answer(errorResponse(refusals::kBody, body.problem));
  planLater([this, form, force, answer] { changeBudget(form, force, answer); }, answer);
}

// It is answered by the planning thread.
void SessionControl::planLater(std::function<void()> command, const Answer& answer) {
  std::optional<Response> why;
  {
    const auto held = session_.guard().hold();
    const RunView run = session_.view(held);
    why = refusal(run);
    if (!why && !run.process.awake) why = nothingRecorded();  // nobody would answer it
    if (!why && commands_.size() >= kMostWaiting)
      why = errorResponse(refusals::kTooMuchAtOnce,
                          "other budgets are being planned for: ask again later");
    if (!why) commands_.push_back(std::move(command));
  }
  if (why) return answer(*why);
  session_.planning().wake();
}

// Nothing: none, or it is of what is not known.
std::optional<std::int64_t> SessionControl::bytesOf(
    const BudgetForm& form, const std::vector<RecordedStep>& recorded) const {
  return scheduler::resolve(form, form.isOfSteps() ? session_.budgets().stepFacts(recorded)
                                                   : session_.trained().memoryFacts());
}

// Of the planning thread, which nothing else plans on meanwhile.
void SessionControl::changeBudget(const BudgetForm& form, bool force, const Answer& answer) {
  BudgetChange change;
  std::vector<RecordedStep> recorded;
  std::optional<Response> why;
  {
    const auto held = session_.guard().hold();
    RunView run = session_.view(held);
    why = refusal(run);
    if (!why) why = pauseRefusal(run);
    recorded = std::move(run.steps.recorded);
    if (!why && recorded.empty()) why = nothingRecorded();
    if (!why && form.isOfSteps() && !session_.budgets().stepsAreMeasured(held)) why = notMeasured();
  }
  if (why) return answer(*why);
  try {
    change.bytes = bytesOf(form, recorded);
    // What it is of may be more later: the answer holds. A share follows the ranks of the machine.
    if (change.bytes)
      change.size =
          form.kind == BudgetForm::Kind::kMemoryShare ? form.text() : std::to_string(*change.bytes);
    for (RecordedStep& step : recorded)
      change.programs.push_back(needs_.of(std::move(step), change.bytes));
    if (!force) why = overfills(change.programs, change.bytes);
    if (!why) planFor(change);
  } catch (const std::exception& error) {
    return answer(
        errorResponse(refusals::kNoPlan, std::string("no plan could be made: ") + error.what()));
  }
  if (why) return answer(*why);
  answer(promise(std::move(change)));
}

// More than there is, where nothing drops what a step does not need: that would end the run, by an
// error or by the system. What it may take now it may take from then on, too.
std::optional<Response> SessionControl::overfills(const std::vector<ProgramChange>& programs,
                                                  std::optional<Bytes> budget) const {
  const TrainedMemory& memory = session_.trained();
  Bytes plain = 0;
  for (const ProgramChange& program : programs) plain = std::max(plain, program.plain_peak_bytes);
  plain += memory.unplannedBytes();
  const Bytes needs = budget ? std::min(plain, *budget) : plain;
  const std::optional<Bytes> now = session_.trained().budgetBytes();
  if (!now || needs <= *now) return std::nullopt;
  const Bytes there = memory.reachableBytes();
  if (needs <= there) return std::nullopt;
  return errorResponse(
      refusals::kMoreThanThereIs,
      fmt::format("{} would end the run: a step takes {} without a plan, and this rank can "
                  "have {} of the {} memory; \"force\": true asks for it all the same",
                  budget ? "a budget of " + formatBytes(*budget) : "no budget", formatBytes(plain),
                  formatBytes(there), memory.isElsewhere() ? "GPU's" : "machine's"));
}

// A plan for each program that does not fit: one of them without would go over the budget, or
// spill. What needs most comes first; where that takes long the others are planned when they are
// recorded the next time, and spill until then.
void SessionControl::planFor(BudgetChange& change) {
  const auto start = std::chrono::steady_clock::now();
  std::stable_sort(change.programs.begin(), change.programs.end(),
                   [](const ProgramChange& a, const ProgramChange& b) {
                     return a.plain_peak_bytes > b.plain_peak_bytes;
                   });
  change.smallest_bytes = needs_.smallestBudgetOf(change.programs);
  const ToldBudgets& told = session_.budgets().verdict().told();
  change.held_bytes = told.heldBytes();  // after that: a need that is larger ends proofs
  const auto alone = [](const ProgramChange& program) { return program.step.alone; };
  if (std::none_of(change.programs.begin(), change.programs.end(), alone))
    change.least_bytes = told.neededBytes();
  for (const ProgramChange& program : change.programs) {
    if (!alone(program)) continue;  // what others held then could go
    const Bytes needed = program.needed_bytes;
    change.least_bytes =
        std::max(change.least_bytes, needed + session_.trained().headroomBytes(needed));
  }
  if (!change.bytes) return;
  if (*change.bytes < change.least_bytes && !isHeld(viewNow(), change)) return;
  const Bytes cap = session_.trained().planningCapBytes(change.bytes);
  for (ProgramChange& program : change.programs) {
    if (program.plain_peak_bytes <= cap) continue;
    const bool first = &program == &change.programs.front();
    program.later = !first && std::chrono::steady_clock::now() - start > kPlanningOfAll;
    if (!program.later) planFor(program, cap);
  }
}

void SessionControl::planFor(ProgramChange& program, Bytes cap) {
  program.plan =
      session_.plans().within(needs_.planningTrace(program.step), program.step.first_step, cap);
  program.predicted_peak_bytes = program.plan->predicted.peak_bytes;
}

// Does the run keep within such a budget now? What holds is proof, whatever is computed.
bool SessionControl::isHeld(const RunView& run, const BudgetChange& change) {
  if (change.held_bytes > 0 && *change.bytes >= change.held_bytes) return true;
  return run.budget.bytes && run.budget.held_steps >= kStepsThatProve &&
         *change.bytes >= *run.budget.bytes;
}

// It is due from here on, or refused.
Response SessionControl::promise(BudgetChange change) {
  const auto held = session_.guard().hold();
  const RunView run = session_.view(held);
  if (auto why = refusal(run)) return *why;
  if (auto why = pauseRefusal(run)) return *why;
  if (change.bytes && *change.bytes < change.least_bytes && !isHeld(run, change)) {
    if (change.smallest_bytes == 0) return notMeasured();
    return tooSmall(fmt::format("a budget of {} is too small for this program: its smallest is {}",
                                formatBytes(*change.bytes), formatBytes(change.smallest_bytes)),
                    change.smallest_bytes);
  }
  const json body = foretold(run, change);
  Response response{.body = body.dump() + "\n"};  // what is not told does not hold
  session_.budgets().ask(held, change.size);
  change_ = std::move(change);
  return response;
}

// Whose plan will be told.
const ProgramChange& SessionControl::shownOf(const BudgetChange& change) const {
  const auto of = [&change](std::uint64_t signature) {
    return std::find_if(
        change.programs.begin(), change.programs.end(),
        [&](const ProgramChange& program) { return program.step.trace->signature == signature; });
  };
  const auto found = of(session_.budgets().run().programs.shown([&](std::uint64_t signature) {
    const auto program = of(signature);
    return program != change.programs.end() && program->plan != nullptr;
  }));
  return found != change.programs.end() ? *found : change.programs.front();
}

// The peak is that of all programs, the time that of the one whose plan will be told.
json SessionControl::foretold(const RunView& run, const BudgetChange& change) const {
  Bytes peak = 0;
  bool spills = false;  // for how long is unknown
  for (const ProgramChange& program : change.programs) {
    const bool fits = !program.later && (program.plan == nullptr || program.plan->feasible);
    const Bytes most = program.predicted_peak_bytes;
    peak = std::max(peak, fits ? most : std::min(most, *change.bytes));
    spills = spills || !fits;
  }
  const ProgramChange& shown = shownOf(change);
  const scheduler::Trace& trace = *shown.step.trace;
  std::optional<double> ratio, seconds;
  if (!spills) {
    ratio = shown.plan != nullptr ? shown.plan->predicted.overhead_ratio : 0;
    seconds = run.plainSeconds(trace.signature, secondsOf(trace)) * (1 + *ratio);
  }
  return {{"budget_bytes", metrics::orNull(change.bytes)},
          {"before_bytes", metrics::orNull(run.budget.bytes)},
          {"from_step", run.nextStep()},
          {"predicted_peak_bytes", peak},
          {"overhead_ratio", metrics::orNull(ratio)},
          {"step_seconds", metrics::orNull(seconds)}};
}

// Between two steps.
void SessionControl::takePlan(const Held& held, const std::string& size) {
  std::optional<BudgetChange> change = std::exchange(change_, std::nullopt);
  if (!change || change->size != size) return;
  for (const ProgramChange& program : change->programs) takePlan(held, program);
}

void SessionControl::takePlan(const Held& held, const ProgramChange& program) {
  if (program.later) return;
  session_.plans().take(held, {.trace = *program.step.trace,
                               .plan = program.plan,
                               .predicted_peak_bytes = program.predicted_peak_bytes,
                               .plain_peak_bytes = program.plain_peak_bytes,
                               .first_step = program.step.first_step});
}

// -----------------------------------------------------------------------------------------------
// replan, pause

void SessionControl::postReplan(const Request& request, const Answer& answer) {
  if (auto why = ofAnotherRank(request)) return answer(*why);
  if (auto why = gone()) return answer(*why);
  const RequestFields body = readFields(request.body, nullptr);
  if (!body.problem.empty()) return answer(errorResponse(refusals::kBody, body.problem));
  answer(replan());
}

Response SessionControl::replan() {
  const auto held = session_.guard().hold();
  const RunView run = session_.view(held);
  if (auto why = refusal(run)) return *why;
  if (auto why = pauseRefusal(run)) return *why;
  session_.plans().planAllAnew(held);
  curve_.forget(held);
  return {.status = 202, .body = json{{"from_step", run.nextStep()}}.dump() + "\n"};
}

void SessionControl::postPause(const Request& request, const Answer& answer) {
  if (auto why = ofAnotherRank(request)) return answer(*why);
  if (auto why = gone()) return answer(*why);
  RequestFields body = readFields(request.body, "paused", {"force"});
  if (body.problem.empty() && !body.fields["paused"].is_boolean())
    body.problem = "\"paused\" is neither true nor false";
  const bool force = body.problem.empty() && isForced(body);
  if (!body.problem.empty()) return answer(errorResponse(refusals::kBody, body.problem));
  const bool paused = body.fields["paused"].get<bool>();
  std::int64_t resumed = 0;
  std::optional<Response> done;
  {
    const auto held = session_.guard().hold();
    resumed = resumed_;
    // Where nothing has been recorded nobody knows what a step takes.
    if (!paused || force || !session_.trained().budgetBytes() ||
        session_.view(held).steps.recorded.empty())
      done = pauseNow(held, paused);
  }
  if (done) return answer(*done);
  planLater([this, answer, resumed] { pauseWhereItFits(answer, resumed); }, answer);
}

// Of the planning thread.
void SessionControl::pauseWhereItFits(const Answer& answer, std::int64_t resumed) {
  std::vector<RecordedStep> recorded;
  std::optional<Response> why;
  {
    const auto held = session_.guard().hold();
    RunView run = session_.view(held);
    why = refusal(run);
    recorded = std::move(run.steps.recorded);
  }
  if (!why) try {
      std::vector<ProgramChange> programs;
      programs.reserve(recorded.size());
      for (RecordedStep& step : recorded)
        programs.push_back(needs_.of(std::move(step), std::nullopt));
      why = overfills(programs, std::nullopt);
    } catch (const std::exception& error) {
      why = errorResponse(refusals::kNotAnalysed,
                          std::string("the step cannot be simulated: ") + error.what());
    }
  if (!why) {
    const auto held = session_.guard().hold();
    why = resumed == resumed_
              ? pauseNow(held, true)
              : errorResponse(refusals::kSuperseded, "the run was told to go on meanwhile");
  }
  answer(*why);
}

Response SessionControl::pauseNow(const Held& held, bool paused) {
  const RunView run = session_.view(held);
  if (auto why = refusal(run)) return *why;
  Response response{.body = json{{"paused", paused}, {"from_step", run.nextStep()}}.dump() + "\n"};
  session_.budgets().pause(held, paused);
  if (!paused) ++resumed_;
  return response;
}

std::optional<Response> SessionControl::pauseRefusal(const RunView& run) {
  if (!run.budget.is_paused) return std::nullopt;
  return errorResponse(refusals::kPaused, "the run is paused: let it go on first");
}

}  // namespace ebbtide::plugin
